// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the word that a misspelled word may have meant.
package spelling

import "iter"

const (
	farthest = 2  // letters
	longest  = 64 // bytes of a word that is compared
)

// Nearest returns the word that differs from the given one by at most two inserted, omitted or
// changed letters, and by no more than half of it. Of several nearest words it returns the
// first. It returns "" if there is none.
func Nearest(given string, words iter.Seq[string]) string {
	best, least := "", farthest+1
	for w := range words {
		if len(given) > longest || len(w) > longest || len(given) > 2*len(w) {
			continue
		}
		if d := distance(given, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance returns the number of letters to change, insert or delete to make b of a
// (Levenshtein, 1965).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
