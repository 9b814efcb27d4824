// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import "github.com/sluicegate/sluice/bench/floor"

func floors() []Contender {
	return []Contender{{
		Name:   "floor",
		Counts: "GCRA word in a fixed pointer-free hash table",
		New: func(l Limit, keys int) (Limiter, error) {
			t, err := floor.NewTable(keys, l.Quota, l.Window, l.Burst)
			return floorTable{t: t}, err
		},
	}, {
		Name:   "floor-one-word",
		Counts: "GCRA word; one limit, no keys",
		New: func(l Limit, _ int) (Limiter, error) {
			w, err := floor.NewWord(l.Quota, l.Window, l.Burst)
			return floorWord{w: w}, err
		},
	}}
}

type floorTable struct {
	unclosed
	t *floor.Table
}

func (f floorTable) Take(key string) (bool, error) { return f.t.Take(key, 1), nil }

type floorWord struct {
	unclosed
	w *floor.Word
}

func (f floorWord) Take(string) (bool, error) { return f.w.Take(1), nil }
