// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package cases tries a configuration: requests at given times, and what is expected of each. See
// docs/testing.md.
package cases
