// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package denycache

import (
	"context"
	"errors"

	"github.com/sluicegate/sluice"
)

var _ sluice.SlotStore = (*Store)(nil)

var errNoSlots = errors.New("denycache: the store keeps no slots; wrap one that does")

// Slot passes req on to the store, which must be a [sluice.SlotStore].
func (s *Store) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if slots, ok := s.store.(sluice.SlotStore); ok {
		return slots.Slot(ctx, req)
	}
	return sluice.SlotDecision{}, errNoSlots
}
