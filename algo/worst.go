// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/internal/span"
)

// Worst is the worst case of a limit besides its [Bound], for its clients and for the service
// that it protects, whatever the traffic. All fields are 0 for a limit that is not valid.
type Worst struct {
	// Released is the most units that a leaky bucket releases in any Window, and Delay the
	// longest delay of a unit in its queue. They are 0 for other algorithms.
	Released int64
	Delay    time.Duration
	// NextWait is the longest time that the next take waits for the debt of a take, with
	// NextWaits of a [sluice.TokenBucket]. It is 0 without NextWaits.
	NextWait time.Duration
	// Late is the longest time by which units of a key come later than without the warm-up,
	// however many they are: half of the WarmUp, for a cold key. It is 0 without a WarmUp.
	Late time.Duration
	// StaysOut is the longest time after its last request for which a limit that counts
	// denials denies a key a unit, however long it sent requests before. Reserved units
	// and other limits come on top. It is 0 for a limit that does not count denials.
	StaysOut time.Duration
	// LeastDenials and MostDenials are how many denials by other limits in a span
	// (t, t+Window] make a block block a key that is not blocked: fewer than LeastDenials never
	// do, and MostDenials always do. They are 0 for other limits.
	LeastDenials, MostDenials int64

	limit sluice.Limit // filled
}

// WorstOf returns the Worst of a limit.
func WorstOf(l sluice.Limit) Worst {
	w := Worst{limit: l.Filled()}
	if l.Validate() != nil {
		return w
	}
	l = w.limit
	w.Released, w.Delay = output(l, l.Window)
	if token, ok := l.Algorithm.(sluice.TokenBucket); ok {
		w.NextWait = nextWait(l, token)
		w.Late = micros(token.WarmUp.Microseconds() / 2)
	}
	if l.CountDenied {
		w.StaysOut = staysOut(l)
	}
	if _, ok := l.Algorithm.(sluice.Block); ok {
		// A denial opens the window. So of two windows in a row, the first denial of the
		// earlier one lies more than a Window before the first of the later one, and a span
		// holds at most Quota−2 and Quota−1 denials that do not block.
		w.LeastDenials, w.MostDenials = l.Quota, max(l.Quota, 2*l.Quota-2)
	}
	return w
}

// output returns the most units that a leaky bucket which queues releases in any span
// (t, t+d], and the longest delay of a unit. l is valid and filled.
func output(l sluice.Limit, d time.Duration) (units int64, wait time.Duration) {
	b, ok := l.Algorithm.(sluice.LeakyBucket)
	if !ok || d < time.Microsecond {
		return 0, 0
	}
	r := span.New(l.Quota, l.Window.Microseconds())
	return add(b.DelayAfter, mulDiv(d.Microseconds(), l.Quota, l.Window.Microseconds())),
		micros(r.Times(l.Burst - b.DelayAfter).Ceil())
}

// nextWait returns NextWait of a valid token bucket.
func nextWait(l sluice.Limit, b sluice.TokenBucket) time.Duration {
	switch {
	case !b.NextWaits:
		return 0
	case b.Refill != sluice.Continuous:
		return time.Duration(ceilDiv(l.Debt, l.Quota)) * l.Window
	}
	return micros(span.New(l.Quota, l.Window.Microseconds()).Times(l.Debt).Ceil())
}

// String returns the most that the limit admits, in words: "at most 200 requests in any
// minute".
func (w Worst) String() string {
	l := w.limit
	if block, ok := l.Algorithm.(sluice.Block); ok {
		return w.ofBlock(block)
	}
	token, _ := l.Algorithm.(sluice.TokenBucket)
	window, _ := l.Algorithm.(sluice.FixedWindow)
	var b strings.Builder
	if window.Calendar != sluice.NoCalendar {
		edge := "midnight"
		if window.From != (sluice.Moment{}) {
			edge = window.From.String()
		}
		fmt.Fprintf(&b, "at most %s in any calendar %v (%s), and %s around %s when one follows another",
			amount.Of(l.Quota+l.Debt, l.Unit == sluice.Bytes), window.Calendar, window.Zone, amount.Of(times(l.Quota+l.Debt, 2), l.Unit == sluice.Bytes), edge)
	} else {
		fmt.Fprintf(&b, "at most %s in any %s", amount.Of(Bound(l, l.Window), l.Unit == sluice.Bytes), amount.Length(l.Window))
	}
	if w.Delay > 0 {
		fmt.Fprintf(&b, ", of which at most %s go on, the others delayed by up to %v", amount.Of(w.Released, l.Unit == sluice.Bytes), w.Delay)
	}
	if window.InitialDeficit > 0 {
		fmt.Fprintf(&b, ", %s less in the first", amount.Of(window.InitialDeficit, l.Unit == sluice.Bytes))
	}
	if l.Debt > 0 {
		fmt.Fprintf(&b, ", a debt of %s included", amount.Of(l.Debt, l.Unit == sluice.Bytes))
	}
	if token.Credit > 0 {
		fmt.Fprintf(&b, ", credit of %s included, and what is added meanwhile on top", amount.Of(token.Credit, l.Unit == sluice.Bytes))
	}
	if token.NextWaits {
		fmt.Fprintf(&b, ", for which the next waits up to %v", w.NextWait)
	}
	if w.Late > 0 {
		fmt.Fprintf(&b, "; those of a cold key come up to %v later", w.Late)
	}
	return b.String()
}

// ofBlock is String for a block.
func (w Worst) ofBlock(b sluice.Block) string {
	least, most := w.LeastDenials, w.MostDenials
	denials := "1 denial"
	if least > 1 {
		denials = fmt.Sprintf("%d denials", least)
	}
	says := fmt.Sprintf("blocks a key for %s after %s in any %s", amount.Lasting(b.For), denials, amount.Length(w.limit.Window))
	if most > least {
		says += fmt.Sprintf(" (at most %d, if they straddle two windows)", most)
	}
	return says
}
