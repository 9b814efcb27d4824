// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import "os"

// heapRoom is how much garbage may come together at least before the collector
// runs. By itself it runs whenever 4 MB have come together while the program
// keeps little, which under load is a hundred times a second.
const heapRoom = 32 << 20 // bytes

// newHeapRoom returns memory that is never touched, and so takes none, but
// counts for the collector as long as it is kept. There is none where the
// operator has settled the matter.
func newHeapRoom() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, heapRoom)
}
