// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"strconv"
	"time"
)

// sizes are the units of bytes, largest first. String writes the first unit of each size.
var sizes = []struct {
	name string
	n    int64
}{
	{"TiB", 1 << 40},
	{"TB", 1e12},
	{"GiB", 1 << 30},
	{"GB", 1e9},
	{"MiB", 1 << 20},
	{"MB", 1e6},
	{"KiB", 1 << 10},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

func formatQuota(n int64, unit Unit) string {
	if unit != Bytes {
		return strconv.FormatInt(n, 10)
	}
	for _, s := range sizes {
		if n != 0 && n%s.n == 0 {
			return strconv.FormatInt(n/s.n, 10) + s.name
		}
	}
	return "0B"
}

// durations are the window's units, longest first. String writes the first unit of each
// length.
var durations = []struct {
	name string
	d    time.Duration
}{
	{"week", 7 * 24 * time.Hour},
	{"weeks", 7 * 24 * time.Hour},
	{"w", 7 * 24 * time.Hour},
	{"day", 24 * time.Hour},
	{"days", 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"hour", time.Hour},
	{"hours", time.Hour},
	{"h", time.Hour},
	{"min", time.Minute},
	{"minute", time.Minute},
	{"minutes", time.Minute},
	{"m", time.Minute},
	{"s", time.Second},
	{"sec", time.Second},
	{"second", time.Second},
	{"seconds", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"µs", time.Microsecond},
}

// formatDuration writes d as a whole number of the largest unit that divides it, without
// a number of one: "min".
func formatDuration(d time.Duration) string {
	for _, u := range durations {
		if d >= u.d && d%u.d == 0 {
			if d == u.d {
				return u.name
			}
			return strconv.FormatInt(int64(d/u.d), 10) + u.name
		}
	}
	return d.String()
}

// formatLength writes d as formatDuration does, with its number: "1min", not "min".
func formatLength(d time.Duration) string {
	text := formatDuration(d)
	if !isDigit(text[0]) {
		return "1" + text
	}
	return text
}

// nameOf returns the name of a value, or its type and number if it has no name.
func nameOf[T ~uint8](v T, names []string, kind string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}
