// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"math"
	"time"
)

func (s *Series) lists() [kinds]*[]uint32 {
	return [kinds]*[]uint32{
		&s.Allowed, &s.Warned, &s.Delayed, &s.Denied, &s.Refused, &s.Failed, &s.FailedOpen, &s.Abandoned, &s.WouldDeny, &s.Degraded, &s.UpstreamErrors,
	}
}

// Sound reports whether a series from another process is valid and has no more
// than most steps.
func (s *Series) Sound(most int) bool {
	if s.Step < 1 || s.Step > 86400 || s.Steps < 0 || s.Steps > most || s.From.Unix() < 0 || s.From.Unix() > 1<<40 || s.From.Unix()%int64(s.Step) != 0 {
		return false
	}
	for _, list := range s.lists() {
		if *list != nil && len(*list) != s.Steps {
			return false
		}
	}
	return true
}

// Add adds the counts of another series at the same times. Its counts before and after s are
// left out, and all of them if its steps have another length.
func (s *Series) Add(o *Series) {
	if s.Step != o.Step {
		return
	}
	by := int(o.From.Unix()-s.From.Unix()) / s.Step // both begin at whole steps
	to := s.lists()
	for k, from := range o.lists() {
		for i, n := range *from {
			at := i + by
			if n == 0 || at < 0 || at >= s.Steps {
				continue
			}
			if *to[k] == nil {
				*to[k] = make([]uint32, s.Steps)
			}
			cell := &(*to[k])[at]
			*cell = uint32(min(uint64(*cell)+uint64(n), math.MaxUint32))
		}
	}
}

// Empty returns a series of p without counts that ends with the step of now.
func (p Span) Empty(now time.Time) *Series {
	step := int64(p.Step / time.Second)
	return &Series{Step: int(step), Steps: p.Steps, From: time.Unix((now.Unix()/step-int64(p.Steps)+1)*step, 0).UTC()}
}
