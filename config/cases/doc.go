// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package cases tests a configuration by requests at given times and the expected result of
// each. See docs/testing.md.
package cases
