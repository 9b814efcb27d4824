// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/testkit"
)

// limit returns a random limit of any algorithm and variant, usual or extreme.
func (d *differential) limit() sluice.Limit {
	for {
		if l := d.anyLimit(); l.Validate() == nil {
			return l
		}
	}
}

func (d *differential) anyLimit() sluice.Limit {
	l := sluice.Limit{
		Quota:  d.quota(),
		Window: d.window(),

		CountDenied: d.rand.IntN(3) == 0 || d.extreme && d.rand.IntN(2) == 0,
	}
	debt := func(most int64) {
		if d.rand.IntN(3) == 0 && most > 0 {
			l.Debt = d.upTo(most)
		}
	}
	switch compiled.Kind(d.rand.IntN(len(algorithms))) {
	case compiled.TokenBucket:
		d.token(&l)
	case compiled.LeakyBucket:
		b := sluice.LeakyBucket{}
		l.Algorithm = b
		if d.rand.IntN(2) == 0 {
			l.Burst = 1 + d.rand.Int64N(20)
		} else {
			d.burst(&l)
		}
		if d.rand.IntN(2) == 0 {
			b.DelayAfter = d.upTo(l.Filled().Burst)
		}
		l.Algorithm = b
	case compiled.FixedWindow:
		debt(min(l.Quota, sluice.MaxQuota-l.Quota))
		d.fixed(&l)
	case compiled.SlidingLog:
		l.Algorithm = sluice.SlidingLog{}
		if l.Quota > bounds.MaxLogQuota {
			l.Quota = 1 + d.rand.Int64N(bounds.MaxLogQuota)
		}
		debt(bounds.MaxLogQuota - l.Quota)
	case compiled.SlidingCounter:
		c := sluice.SlidingCounter{
			Conservative: d.rand.IntN(3) == 0,
			PreFilled:    d.rand.IntN(4) == 0,
			Whole:        d.rand.IntN(3) == 0, // cannot be combined with either, nor with one sub-window
		}
		c.Strict = !c.Conservative && d.rand.IntN(2) == 0
		if d.rand.IntN(2) == 0 {
			c.SubWindows = []int{2, 3, 4, 6, 10, 60}[d.rand.IntN(6)]
		}
		most := bounds.MaxCounterQuota(max(c.SubWindows, 1))
		l.Quota = min(l.Quota, most-d.upTo(most/2))
		debt(min(l.Quota, most-l.Quota))
		l.Algorithm = c
	case compiled.SlidingHistogram:
		debt(min(l.Quota, sluice.MaxQuota-l.Quota))
		l.Algorithm = sluice.SlidingHistogram{Precision: []int{0, 3, 4, 8, 32, 1024}[d.rand.IntN(6)]}
	case compiled.Block:
		l.CountDenied, l.Algorithm = false, sluice.Block{For: d.window()}
		if d.rand.IntN(4) > 0 {
			l.Quota = 1 + d.rand.Int64N(4)
		}
	}
	return l
}

func (d *differential) token(l *sluice.Limit) {
	d.burst(l)
	b := sluice.TokenBucket{}
	if d.rand.IntN(3) == 0 {
		b.Refill = sluice.Refill(1 + d.rand.IntN(2))
	}
	if d.rand.IntN(4) == 0 {
		b.InitialDeficit = d.upTo(l.Filled().Burst)
	}
	b.NextWaits = l.Debt > 0 && d.rand.IntN(2) == 0
	if d.rand.IntN(3) == 0 {
		b.Refill, b.InitialDeficit, l.CountDenied = sluice.Continuous, 0, false
		b.WarmUp = d.warmUp(l)
	} else if d.rand.IntN(3) == 0 {
		l.CountDenied = false
		b = sluice.TokenBucket{Credit: 1 + d.upTo(min(2*l.Quota, 1000)), CreditFor: d.window()}
	}
	l.Algorithm = b
}

func (d *differential) fixed(l *sluice.Limit) {
	w := sluice.FixedWindow{}
	switch d.rand.IntN(4) {
	case 0:
		w.OnFirst = true
	case 1:
		l.Window = 0
		w.Calendar = sluice.Calendar(1 + d.rand.IntN(4))
		w.Zone = []string{"", "Asia/Seoul", "America/New_York", "Europe/London", "Pacific/Apia", "Africa/Cairo"}[d.rand.IntN(6)]
		if w.Calendar == sluice.Week {
			w.WeekStart = time.Weekday(d.rand.IntN(7))
		}
		w.From = d.from(w.Calendar)
	}
	if !w.OnFirst && d.rand.IntN(4) == 0 {
		w.InitialDeficit = d.upTo(l.Quota)
	}
	l.Algorithm = w
}

// from draws the moment at which the windows of a calendar begin.
func (d *differential) from(c sluice.Calendar) (m sluice.Moment) {
	if d.rand.IntN(2) == 0 {
		return m
	}
	m.Time = time.Duration(d.rand.IntN(24*60)) * time.Minute
	switch c {
	case sluice.Month:
		m.Day = d.rand.IntN(32)
	case sluice.Year:
		m.Month, m.Day = time.Month(1+d.rand.IntN(12)), 1+d.rand.IntN(29)
	}
	return m
}

// warmUp draws a warm-up: about the time of some units, or any time.
func (d *differential) warmUp(l *sluice.Limit) time.Duration {
	most := int64(bounds.MaxWarmUp / time.Microsecond)
	micros := []int64{1, 2, 1001, 4e6, most, 1 + d.rand.Int64N(most), l.Window.Microseconds() / l.Quota * (1 + d.rand.Int64N(12)) / 4}
	return min(max(time.Duration(micros[d.rand.IntN(len(micros))])*time.Microsecond, time.Microsecond), bounds.MaxWarmUp)
}

func (d *differential) burst(l *sluice.Limit) {
	switch d.rand.IntN(3) {
	case 0:
		l.Burst = 1 + d.upTo(min(2*l.Quota, sluice.MaxQuota-1))
	case 1:
		l.Burst = 1 + d.rand.Int64N(10)
	}
	if d.rand.IntN(3) == 0 {
		l.Debt = d.upTo(min(l.Quota, 1000))
	}
}

func (d *differential) quota() int64 {
	if d.extreme && d.rand.IntN(2) == 0 {
		return sluice.MaxQuota - d.upTo(sluice.MaxQuota/2)
	}
	switch d.rand.IntN(8) {
	case 0:
		return 1
	case 1:
		return sluice.MaxQuota - d.rand.Int64N(3)
	case 2:
		return 1 + d.upTo(sluice.MaxQuota-1)
	case 3:
		return 1 + d.rand.Int64N(1<<32)
	case 4:
		return 1 + d.rand.Int64N(5000)
	default:
		return 1 + d.rand.Int64N(100)
	}
}

func (d *differential) window() time.Duration {
	const longest = int64(sluice.MaxWindow / time.Microsecond)
	micros := []int64{
		1, 2, 7, 1000, 1e6, 3e6, 60e6, 3600e6, 86400e6, longest, longest - 1,
		1 + d.rand.Int64N(1000), 1 + d.rand.Int64N(1e9), 1 + d.rand.Int64N(longest),
	}
	return time.Duration(micros[d.rand.IntN(len(micros))]) * time.Microsecond
}

// change returns l with another quota, or a completely different limit under its name.
func (d *differential) change(l sluice.Limit) sluice.Limit {
	if other := l; d.rand.IntN(2) == 0 {
		if testkit.Token(l).WarmUp > 0 && d.rand.IntN(2) == 0 { // at another rate it has a state of its own
			d.burst(&other)
			testkit.Set(&other, func(b *sluice.TokenBucket) { b.NextWaits = b.NextWaits && other.Debt > 0 })
			if other.Validate() == nil {
				return other
			}
			other = l
		}
		other.Quota = 1 + d.upTo(min(2*l.Quota, sluice.MaxQuota-1))
		if other.Validate() == nil {
			return other
		}
	}
	return d.limit().WithName(l.Name)
}
