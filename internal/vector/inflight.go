// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
)

// playInFlight plays steps of requests in flight. The store must keep slots.
func (v *Vector) playInFlight(ctx context.Context, store sluice.Store, set func(now time.Time)) error {
	slots, err := sluice.NewSlots(store, v.Name, sluice.SlotLimit{Cap: v.InFlight, TTL: time.Minute})
	if err != nil {
		return err
	}
	var running []string
	for i := range v.Steps {
		want := v.Steps[i]
		set(Start.Add(want.At))
		for _, owner := range running[:want.Ends] {
			if _, err := slots.Release(ctx, Key, owner); err != nil {
				return fmt.Errorf("%s: step %d: %w", v.Name, i+1, err)
			}
		}
		running = running[want.Ends:]
		got := want
		got.Allowed = 0
		for n := range want.times() {
			owner := fmt.Sprint(i, ".", strconv.FormatInt(n, 10))
			d, err := slots.Acquire(ctx, Key, owner, want.Cost)
			if err != nil {
				return fmt.Errorf("%s: step %d: %w", v.Name, i+1, err)
			}
			if d.Allowed {
				got.Allowed++
				running = append(running, owner)
			}
			got.Remaining, got.RetryAfter, got.TooLarge = d.Free, d.RetryAfter, d.TooLarge
		}
		if got != want {
			return fmt.Errorf("%s: step %d: got %q, want %q", v.Name, i+1, got, want)
		}
	}
	return nil
}
