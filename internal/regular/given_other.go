// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package regular

import "os"

// appendGiven opens what the process was given open.
func appendGiven(path string) (*os.File, error) { return openGiven(path) }
