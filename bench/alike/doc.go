// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package alike holds limits against the libraries whose decisions they are to
// give: the same random calls to both, and every answer equal. It has tests only,
// which make test runs.
package alike
