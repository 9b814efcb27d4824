// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package serve

// maxDescriptors returns 0: how many there may be is not known.
func maxDescriptors() int64 { return 0 }
