// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package lint describes the rules of a file with their worst cases, and warns of settings
// that are allowed but make no sense.
package lint
