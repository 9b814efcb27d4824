// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package compiled

// Short is what a store of this module embeds that decides a take of one charge on
// a shorter way than its Take: T. The zero value has none.
type Short[T any] struct {
	store any
	take  T
}

// SetShort sets the way of the store that embeds s, which nobody else has seen yet.
func (s *Short[T]) SetShort(store any, take T) { s.store, s.take = store, take }

// ShortOf returns that way if it is store's own: not one that store has from
// another, which it embeds and whose Take it replaces.
func (s *Short[T]) ShortOf(store any) (take T, ok bool) {
	if s.store == nil || s.store != store {
		return take, false
	}
	return s.take, true
}
