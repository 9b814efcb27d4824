// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package serve

// maxDescriptors returns 0: the limit is unknown.
func maxDescriptors() int64 { return 0 }
