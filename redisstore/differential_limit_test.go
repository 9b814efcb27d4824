// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// limit returns a random limit: any algorithm and variant, usual or extreme.
func (d *differential) limit() sluice.Limit {
	for {
		if l := d.anyLimit(); l.Validate() == nil {
			return l
		}
	}
}

func (d *differential) anyLimit() sluice.Limit {
	l := sluice.Limit{
		Algorithm: sluice.Algorithm(d.rand.IntN(int(sluice.Block) + 1)),
		Quota:     d.quota(),
		Window:    d.window(),

		CountDenied: d.rand.IntN(3) == 0 || d.extreme && d.rand.IntN(2) == 0,
	}
	debt := func(most int64) {
		if d.rand.IntN(3) == 0 && most > 0 {
			l.Debt = d.upTo(most)
		}
	}
	switch l.Algorithm {
	case sluice.TokenBucket:
		d.burst(&l)
		if d.rand.IntN(3) == 0 {
			l.Refill = sluice.Refill(1 + d.rand.IntN(2))
		}
		if d.rand.IntN(4) == 0 {
			l.InitialDeficit = d.upTo(l.Filled().Burst)
		}
		l.NextWaits = l.Debt > 0 && d.rand.IntN(2) == 0
		if d.rand.IntN(3) == 0 {
			d.warmUp(&l)
		} else if d.rand.IntN(3) == 0 {
			l.Refill, l.InitialDeficit, l.NextWaits, l.CountDenied = sluice.Continuous, 0, false, false
			l.Credit, l.CreditFor = 1+d.upTo(min(2*l.Quota, 1000)), d.window()
		}
	case sluice.LeakyBucket:
		if d.rand.IntN(2) == 0 {
			l.Burst = 1 + d.rand.Int64N(20)
		} else {
			d.burst(&l)
		}
		if d.rand.IntN(2) == 0 {
			l.DelayAfter = d.upTo(l.Filled().Burst)
		}
	case sluice.FixedWindow:
		debt(min(l.Quota, sluice.MaxQuota-l.Quota))
		switch d.rand.IntN(4) {
		case 0:
			l.Anchor = sluice.OnFirst
		case 1:
			l.Window = 0
			l.Calendar = sluice.Calendar(1 + d.rand.IntN(4))
			l.Zone = []string{"", "Asia/Seoul", "America/New_York", "Europe/London", "Pacific/Apia", "Africa/Cairo"}[d.rand.IntN(6)]
			if l.Calendar == sluice.Week {
				l.WeekStart = time.Weekday(d.rand.IntN(7))
			}
			d.from(&l)
		}
		if l.Anchor == sluice.OnClock && d.rand.IntN(4) == 0 {
			l.InitialDeficit = d.upTo(l.Quota)
		}
	case sluice.SlidingLog:
		if l.Quota > bounds.MaxLogQuota {
			l.Quota = 1 + d.rand.Int64N(bounds.MaxLogQuota)
		}
		debt(bounds.MaxLogQuota - l.Quota)
	case sluice.SlidingCounter:
		if d.rand.IntN(2) == 0 {
			l.SubWindows = []int{2, 3, 4, 6, 10, 60}[d.rand.IntN(6)]
		}
		most := bounds.MaxCounterQuota(max(l.SubWindows, 1))
		l.Quota = min(l.Quota, most-d.upTo(most/2))
		debt(min(l.Quota, most-l.Quota))
		l.Conservative = d.rand.IntN(3) == 0
		l.Strict = !l.Conservative && d.rand.IntN(2) == 0
		l.PreFilled = d.rand.IntN(4) == 0
		l.Whole = d.rand.IntN(3) == 0 // which goes with neither, nor with one sub-window
	case sluice.Block:
		l.CountDenied, l.BlockFor = false, d.window()
		if d.rand.IntN(4) > 0 {
			l.Quota = 1 + d.rand.Int64N(4)
		}
	case sluice.SlidingHistogram:
		debt(min(l.Quota, sluice.MaxQuota-l.Quota))
		l.Precision = []int{0, 3, 4, 8, 32, 1024}[d.rand.IntN(6)]
	}
	return l
}

// from draws when the windows of a calendar begin.
func (d *differential) from(l *sluice.Limit) {
	if d.rand.IntN(2) == 0 {
		return
	}
	l.From.Time = time.Duration(d.rand.IntN(24*60)) * time.Minute
	switch l.Calendar {
	case sluice.Month:
		l.From.Day = d.rand.IntN(32)
	case sluice.Year:
		l.From.Month, l.From.Day = time.Month(1+d.rand.IntN(12)), 1+d.rand.IntN(29)
	}
}

// warmUp makes l one that warms up, in about as long as some units last or in any
// time.
func (d *differential) warmUp(l *sluice.Limit) {
	l.Refill, l.InitialDeficit, l.CountDenied = sluice.Continuous, 0, false
	most := int64(bounds.MaxWarmUp / time.Microsecond)
	micros := []int64{1, 2, 1001, 4e6, most, 1 + d.rand.Int64N(most), l.Window.Microseconds() / l.Quota * (1 + d.rand.Int64N(12)) / 4}
	l.WarmUp = min(max(time.Duration(micros[d.rand.IntN(len(micros))])*time.Microsecond, time.Microsecond), bounds.MaxWarmUp)
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

// change returns l with another quota or as another limit altogether, under
// its name.
func (d *differential) change(l sluice.Limit) sluice.Limit {
	if other := l; d.rand.IntN(2) == 0 {
		if l.WarmUp > 0 && d.rand.IntN(2) == 0 { // at another rate it has a state of its own
			d.burst(&other)
			if other.NextWaits = other.NextWaits && other.Debt > 0; other.Validate() == nil {
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
