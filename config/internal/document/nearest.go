// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

// nearest returns the field whose name is at most two letters, and at most half of its own,
// from a misspelt word, or "".
func nearest(word string, fields []Field) (best string) {
	least := 3
	for _, f := range fields {
		if len(word) > 2*len(f.Name) {
			continue
		}
		if d := distance(word, f.Name); d < least {
			best, least = f.Name, d
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
