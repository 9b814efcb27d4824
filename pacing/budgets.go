// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"container/list"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clock"
)

// Options are the bounds of a client. The zero value of every field is valid.
type Options struct {
	MaxWait       time.Duration // of a call in all; zero means a minute
	MaxRetryAfter time.Duration // of one answer; zero means 10 minutes, or MaxWait if that is longer
	MaxRetries    int           // how often; zero means 3, a negative number never
	MaxBudgets    int           // how many in memory; zero means 1024
	// Now and AfterFunc are the clock by which calls wait. Nil means [time.Now] and
	// [time.AfterFunc]. AfterFunc returns a function that stops the timer.
	Now       func() time.Time
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

func (o *Options) clock() clock.Clock { return clock.Clock{Now: o.Now, AfterFunc: o.AfterFunc} }

// Budgets are the most recently used budgets. They are safe for concurrent use.
type Budgets struct {
	o Options // none of them zero

	mu    sync.Mutex
	byKey map[string]*list.Element
	used  list.List // of *Budget, the most recently used first
}

// NewBudgets returns Budgets, or an error that joins all faults of o, each beginning with the
// name of the package whose options they are.
func NewBudgets(pkg string, o Options) (*Budgets, error) {
	var all []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"MaxWait", o.MaxWait}, {"MaxRetryAfter", o.MaxRetryAfter}} {
		if d.value < 0 || d.value > sluice.MaxWindow {
			all = append(all, fmt.Errorf("%s: %s: %v must be 0 to %v", pkg, d.name, d.value, sluice.MaxWindow))
		}
	}
	if o.MaxBudgets < 0 {
		all = append(all, fmt.Errorf("%s: MaxBudgets: %d is negative; leave it 0 for 1024", pkg, o.MaxBudgets))
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	c := o.clock().Filled()
	o.Now, o.AfterFunc = c.Now, c.AfterFunc
	if o.MaxWait == 0 {
		o.MaxWait = time.Minute
	}
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = max(10*time.Minute, o.MaxWait)
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = 3
	}
	if o.MaxBudgets == 0 {
		o.MaxBudgets = 1024
	}
	return &Budgets{o: o, byKey: make(map[string]*list.Element)}, nil
}

// Of returns the budget of a key, which belongs to a host. Beyond MaxBudgets the least recently
// used one is forgotten.
func (s *Budgets) Of(key, host string) *Budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byKey[key]; ok {
		s.used.MoveToFront(e)
		return e.Value.(*Budget) // no other type is stored
	}
	if s.used.Len() >= s.o.MaxBudgets {
		oldest := s.used.Remove(s.used.Back()).(*Budget) // as above
		delete(s.byKey, oldest.key)
	}
	b := newBudget(key, host, &s.o)
	s.byKey[key] = s.used.PushFront(b)
	return b
}

// Forget forgets the limits of a host.
func (s *Budgets) Forget(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.used.Front(); e != nil; e = e.Next() {
		if b := e.Value.(*Budget); strings.EqualFold(b.host, host) { // as above
			b.clear()
		}
	}
}
