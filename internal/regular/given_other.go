// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package regular

import "os"

// appendGiven opens a file descriptor passed to the process.
func appendGiven(path string) (*os.File, error) { return openGiven(path) }
