// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// drawWorld draws the limits of a world: one limit, versions of one, or two
// limits with versions.
func drawWorld(rnd *rand.Rand) *World {
	switch rnd.IntN(10) {
	case 8, 9:
		return drawBlocks(rnd)
	case 0, 1:
		return &World{Name: "one version", Plans: []Plan{of(drawLimit(rnd, "a", drawForm(rnd)))}}
	case 2, 3:
		return drawVersions(rnd)
	case 4:
		return drawForms(rnd)
	case 5:
		return &World{Name: "two limits", Plans: []Plan{of(drawLimit(rnd, "a", drawForm(rnd)), drawLimit(rnd, "b", drawForm(rnd)))}}
	case 6:
		return &World{Name: "two scopes", Plans: []Plan{
			{"s", []string{drawLimit(rnd, "a", drawForm(rnd))}},
			{"u", []string{drawLimit(rnd, "a", drawForm(rnd))}},
		}}
	default:
		w := &World{Name: "versions of two limits"}
		f, g := drawForm(rnd), drawForm(rnd)
		for range 2 + rnd.IntN(2) {
			w.Plans = append(w.Plans, of(drawLimit(rnd, "a", f), drawLimit(rnd, "b", g)))
		}
		return w
	}
}

// drawBlocks draws versions of a limit beside versions of a block.
func drawBlocks(rnd *rand.Rand) *World {
	f := drawForm(rnd)
	w := &World{Name: "a " + f.words[0] + " beside a block", one: rnd.IntN(2) == 0}
	for range 1 + rnd.IntN(3) {
		near := func() int64 { return max(f.window*(1+rnd.Int64N(4))/(1+rnd.Int64N(8)), 1) }
		limits := []string{drawLimit(rnd, "a", f), fmt.Sprintf("b: %d/%dus block %dus", 1+rnd.Int64N(5), min(near(), year), min(near(), year))}
		if rnd.IntN(3) == 0 {
			limits[0], limits[1] = limits[1], limits[0]
		}
		w.Plans = append(w.Plans, of(limits...))
	}
	return w
}

// drawVersions draws versions that share a state.
func drawVersions(rnd *rand.Rand) *World {
	f := drawForm(rnd)
	w := &World{Name: "versions of a " + f.words[0], one: rnd.IntN(2) == 0}
	for range 2 + rnd.IntN(2) {
		if f.words[0] == "bucket" && rnd.IntN(2) == 0 {
			f.window = drawWindow(rnd)
		}
		w.Plans = append(w.Plans, of(drawLimit(rnd, "a", f)))
	}
	return w
}

// drawForms draws versions of several forms.
func drawForms(rnd *rand.Rand) *World {
	w := &World{Name: "several forms", one: rnd.IntN(2) == 0}
	near := drawWindow(rnd)
	for range 2 + rnd.IntN(2) {
		f := drawForm(rnd)
		if rnd.IntN(3) > 0 { // of similar length
			f.window = near * (1 + rnd.Int64N(6)) / (1 + rnd.Int64N(3))
			f.window = min(max(f.window-f.window%12, 12), year)
		}
		w.Plans = append(w.Plans, of(drawLimit(rnd, "a", f)))
	}
	return w
}

// shape is a pattern from which a limit's text is drawn.
type shape struct {
	words  []string // a name and the text
	window int64
	quota  int64 // of all versions, if not 0
}

// hour is the longest warm-up in µs.
const hour = int64(time.Hour / time.Microsecond)

// year is the longest window in µs, in a whole number of parts.
const year = int64(366 * 24 * time.Hour / time.Microsecond)

func drawForm(rnd *rand.Rand) shape {
	all := [][]string{
		{"bucket", ""},
		{"bucket", ""},
		{"bucket", "credit"},
		{"bucket", "leaky-bucket nodelay"},
		{"bucket", "leaky-bucket"},
		{"refilled bucket", "interval-refill"},
		{"fixed window", "fixed-window"},
		{"fixed window that starts with less", "fixed-window initial"},
		{"first window", "fixed-window anchor first"},
		{"log", "sliding-log"},
		{"log", "sliding-log"},
		{"log that counts denials", "sliding-log count-denied"},
		{"counter", "sliding-counter"},
		{"strict counter", "sliding-counter strict"},
		{"conservative counter", "sliding-counter conservative"},
		{"counter of parts", "sliding-counter sub-windows 4"},
		{"conservative parts", "sliding-counter sub-windows 3 conservative"},
		{"whole parts", "sliding-counter sub-windows 3 whole"},
		{"pre-filled counter", "sliding-counter pre-filled"},
		{"bucket that counts denials", "count-denied"},
		{"bucket that counts denials", "leaky-bucket nodelay count-denied"},
		{"refilled bucket that counts denials", "interval-refill count-denied"},
		{"fixed window that counts denials", "fixed-window count-denied"},
		{"first window that counts denials", "fixed-window anchor first count-denied"},
		{"counter that counts denials", "sliding-counter count-denied"},
		{"whole parts that count denials", "sliding-counter sub-windows 3 whole count-denied"},
		{"histogram that counts denials", "sliding-histogram precision 3 count-denied"},
		{"histogram", "sliding-histogram precision 3"},
		{"histogram", "sliding-histogram precision 5"},
		{"bucket with an initial level", "initial"},
		{"bucket", "next-waits"},
		{"refilled bucket", "aligned-refill"},
		{"refilled bucket whose next waits", "interval-refill next-waits"},
		{"bucket that warms up", "warm-up"},
		{"bucket that warms up", "next-waits warm-up"},
	}
	f := shape{words: all[rnd.IntN(len(all))], window: drawWindow(rnd)}
	if strings.Contains(f.words[1], "warm-up") { // one length and rate, otherwise the states differ
		f.quota = 1 + rnd.Int64N(6)
		near := []int64{f.window / f.quota * (1 + rnd.Int64N(12)) / 4, f.window * rnd.Int64N(9), 1 + rnd.Int64N(hour)}[rnd.IntN(3)]
		f.words = []string{f.words[0], fmt.Sprintf("%s %dus", f.words[1], min(max(near, 1), hour))}
	}
	return f
}

// drawWindow draws a window of 1 µs to 366 days, about evenly by its magnitude.
func drawWindow(rnd *rand.Rand) int64 {
	if rnd.IntN(3) == 0 {
		return []int64{1, 12, 1_000_000, 60_000_000, 3600_000_000, 86_400_000_000, year}[rnd.IntN(7)]
	}
	n := int64(1) << rnd.IntN(45)
	n = min(n+rnd.Int64N(n), year)
	if n >= 12 {
		n -= n % 12 // so that sub-windows are whole µs
	}
	return n
}

func drawLimit(rnd *rand.Rand, name string, f shape) string {
	quota := 1 + rnd.Int64N(6)
	if rnd.IntN(4) == 0 {
		quota = 1 + rnd.Int64N(120)
	}
	if f.quota > 0 && rnd.IntN(8) > 0 {
		quota = f.quota
	}
	text := fmt.Sprintf("%s: %d/%dus %s", name, quota, f.window, f.words[1])
	if f.words[1] == "fixed-window initial" {
		text += fmt.Sprintf(" %d", rnd.Int64N(quota+1))
	}
	if strings.Contains(f.words[0], "bucket") {
		burst := 1 + rnd.Int64N(8)
		if rnd.IntN(3) == 0 {
			burst = quota
		}
		burst = max(min(burst, year/f.window*quota/2), 1)
		if f.words[1] == "initial" {
			text += fmt.Sprintf(" %d", rnd.Int64N(burst+1))
		}
		text += fmt.Sprintf(" burst %d", burst)
	}
	if rnd.IntN(4) == 0 || strings.Contains(f.words[1], "next-waits") {
		text += fmt.Sprintf(" debt %d", 1+rnd.Int64N(6))
	}
	if rnd.IntN(8) == 0 && !strings.Contains(f.words[1], "count-denied") && !strings.Contains(f.words[1], "next-waits") && !strings.Contains(f.words[1], "warm-up") && f.words[1] != "aligned-refill" {
		text += " count-denied" // other versions may not count denials
	}
	if (f.words[1] == "" || f.words[1] == "credit") && (f.words[1] == "credit" || rnd.IntN(6) == 0) && !strings.Contains(text, "count-denied") {
		text = strings.Replace(text, " credit", "", 1)
		text += fmt.Sprintf(" credit %d credit-for %dus", 1+rnd.Int64N(8), min(max(f.window*(1+rnd.Int64N(8))/(1+rnd.Int64N(4)), 1), year))
	}
	return text
}
