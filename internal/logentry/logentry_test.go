// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package logentry_test

import (
	"slices"
	"testing"

	"github.com/sluicegate/sluice/internal/logentry"
)

// TestAppend: the words are a stored format.
func TestAppend(t *testing.T) {
	const at = 5
	for _, c := range []struct {
		units  int64
		denied bool
		want   []uint64
	}{
		{1, false, []uint64{at<<12 | 1<<1}},
		{2046, false, []uint64{at<<12 | 2046<<1}},
		{2047, false, []uint64{at<<12 | 2047<<1, 2047<<1 | 1}},
		{1, true, []uint64{at << 12}},
		{2, true, []uint64{at<<12 | 2047<<1, 1<<63 | 2<<1 | 1}},
	} {
		if got := logentry.Append([]uint64{7}, at, c.units, c.denied); got[0] != 7 || !slices.Equal(got[1:], c.want) {
			t.Errorf("%d units, denied %t: %x, want %x", c.units, c.denied, got[1:], c.want)
		}
	}
}
