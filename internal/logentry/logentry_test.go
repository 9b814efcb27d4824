// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package logentry_test

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/logentry"
)

// TestAppend: the words are a stored format.
func TestAppend(t *testing.T) {
	of := func(window time.Duration) logentry.Format { return logentry.Of(true, window.Microseconds()) }
	log, hour, day, year := logentry.Of(false, 1), of(time.Hour), of(24*time.Hour), of(sluice.MaxWindow)
	for format, want := range map[logentry.Format]int{log: 8, hour: 7, day: 7, year: 8} {
		if got := format.Bytes(); got != want {
			t.Errorf("%d bits: words of %d bytes, want %d", format, got, want)
		}
	}
	const at, far = 5, 5<<40 | 7
	for _, c := range []struct {
		format logentry.Format
		at     int64
		units  int64
		denied bool
		want   []uint64
	}{
		{log, at, 1, false, []uint64{at<<12 | 1<<1}},
		{log, at, 2046, false, []uint64{at<<12 | 2046<<1}},
		{log, at, 2047, false, []uint64{at<<12 | 2047<<1, 2047<<1 | 1}},
		{log, at, 1, true, []uint64{at << 12}},
		{log, at, 2, true, []uint64{at<<12 | 2047<<1, 1<<63 | 2<<1 | 1}},
		{hour, far, 1, false, []uint64{7<<24 | 1<<1}},
		{hour, far, 1<<23 - 2, false, []uint64{7<<24 | (1<<23-2)<<1}},
		{hour, far, 1<<23 - 1, false, []uint64{7<<24 | (1<<23-1)<<1, (1<<23-1)<<1 | 1}},
		{day, far, 1<<18 - 2, false, []uint64{7<<19 | (1<<18-2)<<1}},
		{day, far, 1<<18 - 1, false, []uint64{7<<19 | (1<<18-1)<<1, (1<<18-1)<<1 | 1}},
		{year, far, 1<<18 - 2, false, []uint64{far<<19 | (1<<18-2)<<1}},
		{year, far, 1<<18 - 1, false, []uint64{far<<19 | (1<<18-1)<<1, (1<<18-1)<<1 | 1}},
	} {
		if got := c.format.Append([]uint64{7}, c.at, c.units, c.denied); got[0] != 7 || !slices.Equal(got[1:], c.want) {
			t.Errorf("%d bits, %d units, denied %t: %x, want %x", c.format, c.units, c.denied, got[1:], c.want)
		}
	}
}

// TestAt: an instant reads back while the newest one is ahead of it by less than a window, or
// than the longest wait.
func TestAt(t *testing.T) {
	for _, window := range []time.Duration{time.Microsecond, time.Minute, 1<<32*time.Microsecond - 1000, 1 << 32 * time.Microsecond, 1<<32*time.Microsecond + 1000, 24 * time.Hour, sluice.MaxWindow} {
		f := logentry.Of(true, window.Microseconds())
		reach := max(window.Microseconds(), sluice.MaxWait.Microseconds()) - 1
		for _, newest := range []int64{reach, 1_763_700_000_000_000, 1<<52 - 1} {
			for _, at := range []int64{newest - reach, newest - reach/2, newest - 1, newest} {
				for _, units := range []int64{1, 1 << 20, sluice.MaxQuota} {
					if word, _ := f.Pack(at, units, false); f.At(word, newest) != at || bits.Len64(word) > 8*f.Bytes() {
						t.Errorf("window %v: %d is %d, %d before the newest", window, at, f.At(word, newest), newest-at)
					}
				}
			}
		}
	}
}
