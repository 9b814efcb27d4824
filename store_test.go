// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicegate/sluice"
)

// oneByOne is a store without batches that only counts its calls.
type oneByOne struct{ asked int }

var errFifth = errors.New("the fifth fails")

func (s *oneByOne) Take(context.Context, sluice.Request) (sluice.Decision, error) {
	if s.asked++; s.asked == 5 {
		return sluice.Decision{}, errFifth
	}
	return sluice.Decision{Remaining: int64(s.asked)}, nil
}

func TestTakeBatchOneByOne(t *testing.T) {
	s, out := new(oneByOne), make([]sluice.Result, 6)
	if err := sluice.TakeBatch(t.Context(), s, make([]sluice.Request, 6), out); err != nil {
		t.Fatal(err)
	}
	for i, r := range out {
		if failed := i == 4; failed != (r.Err != nil) || !failed && r.Decision.Remaining != int64(i+1) {
			t.Errorf("result %d: %+v", i+1, r)
		}
	}
	err := sluice.TakeBatch(t.Context(), s, make([]sluice.Request, 2), out)
	if _, ok := errors.AsType[*sluice.RequestError](err); !ok || s.asked != 6 {
		t.Errorf("6 results for 2 requests: got error %v after %d requests", err, s.asked)
	}
}

// TestMaybeSentSaysOnce: only the first call of Keep or Undo reaches the store.
func TestMaybeSentSaysOnce(t *testing.T) {
	var said []bool
	late := sluice.Late{Undone: true}
	e := sluice.NewMaybeSentError(context.DeadlineExceeded, func(undo bool, heard func(sluice.Late)) {
		said = append(said, undo)
		heard(late)
	})
	heard := 0
	e.Undo(func(l sluice.Late) {
		if heard++; l != late {
			t.Errorf("heard %+v, want %+v", l, late)
		}
	})
	e.Keep(func(sluice.Late) { heard++ })
	e.Undo(nil)
	if len(said) != 1 || !said[0] || heard != 1 {
		t.Errorf("the store was reported %v and answered %d times, want once to undo", said, heard)
	}
	if !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("%v is no %v", e, context.DeadlineExceeded)
	}
}

// TestMaybeSentOfNoStore: a MaybeSentError without a store reports at once that there is no
// answer.
func TestMaybeSentOfNoStore(t *testing.T) {
	why := errors.New("gone")
	for _, say := range []func(*sluice.MaybeSentError, func(sluice.Late)){(*sluice.MaybeSentError).Keep, (*sluice.MaybeSentError).Undo} {
		heard := 0
		say(&sluice.MaybeSentError{Err: why}, func(l sluice.Late) {
			if heard++; l.Err == nil || l.Undone {
				t.Errorf("%+v; want an error", l)
			}
		})
		if heard != 1 {
			t.Errorf("heard %d times, want once", heard)
		}
		say(&sluice.MaybeSentError{Err: why}, nil)
		say(sluice.NewMaybeSentError(why, nil), nil)
	}
}
