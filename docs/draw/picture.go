// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// picture is one limit under the traffic that all pictures share.
type picture struct {
	file, limit string
	cost        int64  // of every request, 0 for 1
	block       string // beside the limit, empty for none
}

var pictures = []picture{
	{"token-bucket.svg", "10/min token-bucket", 0, ""},
	{"token-bucket-interval.svg", "10/min token-bucket interval-refill", 0, ""},
	{"token-bucket-aligned.svg", "10/min aligned-refill", 0, ""},
	{"token-bucket-next-waits.svg", "10/min burst 5 next-waits debt 5", 4, ""},
	{"token-bucket-warm-up.svg", "10/min burst 5 warm-up 1min", 0, ""},
	{"token-bucket-denied.svg", "10/min token-bucket count-denied", 0, ""},
	{"leaky-bucket-queue.svg", "10/min burst 5 leaky-bucket", 0, ""},
	{"leaky-bucket-meter.svg", "10/min burst 5 leaky-bucket nodelay", 0, ""},
	{"fixed-window.svg", "10/min fixed-window", 0, ""},
	{"fixed-window-first.svg", "10/min fixed-window anchor first", 0, ""},
	{"sliding-log.svg", "10/min sliding-log", 0, ""},
	{"sliding-log-denied.svg", "10/min sliding-log count-denied", 0, ""},
	{"sliding-counter.svg", "10/min sliding-counter", 0, ""},
	{"sliding-counter-conservative.svg", "10/min sliding-counter sub-windows 6 conservative", 0, ""},
	{"sliding-counter-whole.svg", "10/min sliding-counter sub-windows 6 whole", 0, ""},
	{"sliding-histogram.svg", "10/min sliding-histogram precision 3", 0, ""},
	{"block.svg", "10/min token-bucket", 0, "10/min block 1min"},
}

const (
	second = int64(1e6)
	span   = 240 * second // of the whole picture
)

// arrivals is a crowd just before a minute ends, another just behind it, and a
// client that keeps asking every four seconds.
func arrivals() []int64 {
	var at []int64
	for i := range int64(12) {
		at = append(at, 52*second+i*second/2)
	}
	for i := range int64(12) {
		at = append(at, 62*second+i*second/2)
	}
	for t := 76 * second; t < span; t += 4 * second {
		at = append(at, t)
	}
	return at
}

// outcome is the outcome of one arrival.
type outcome struct {
	at, leaves int64
	units      int64
	allowed    bool
}

func (p picture) decide() (*sluice.Term, []outcome, error) {
	var limits []sluice.Limit
	for _, text := range []string{p.limit, p.block} {
		if text == "" {
			continue
		}
		limit, err := sluice.ParseLimit(text)
		if err != nil {
			return nil, nil, err
		}
		limits = append(limits, limit)
	}
	plan, err := sluice.Compile("draw", limits...)
	if err != nil {
		return nil, nil, err
	}
	req := sluice.Request{Charge: sluice.Charge{Plan: plan, Cost: max(p.cost, 1)}}
	items := make([]algo.Item, plan.Len())
	var out []outcome
	for _, at := range arrivals() {
		for i := range items {
			items[i].Term, items[i].Cost = plan.Term(i), req.Cost
		}
		d := algo.Decide(&req, items, at)
		out = append(out, outcome{at, at + d.Delay.Microseconds(), d.Spent, d.Allowed})
	}
	return plan.Term(0), out, nil
}

// Lengths of the picture, in its own units.
const (
	width, height = 860, 250
	left, right   = 40, 20
	rowDenied     = 58
	rowAllowed    = 76
	rowLeaves     = 94
	chartTop      = 110
	chartBottom   = 222
)

func x(t int64) float64 { return left + float64(t)/float64(span)*(width-left-right) }

func (p picture) draw() ([]byte, error) {
	term, outcomes, err := p.decide()
	if err != nil {
		return nil, err
	}
	bound := algo.Bound(term.Limit, time.Minute)
	y := func(units int64) float64 {
		return chartBottom - float64(units)/21*(chartBottom-chartTop)
	}
	var b bytes.Buffer
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	text := func(x, y float64, style, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, style, html.EscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#333">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	title := p.limit
	if p.cost > 0 {
		title += fmt.Sprintf(", %d units a request", p.cost)
	}
	worst := algo.WorstOf(term.Limit).String()
	if p.block != "" {
		title += ", " + p.block
		worst += "; " + algo.WorstOf(sluice.MustParseLimit(p.block)).String()
	}
	text(left, 20, `font-size="14" font-weight="bold"`, title)
	text(left, 38, `fill="#666"`, worst)

	for t := int64(0); t <= span; t += 60 * second {
		line(x(t), 48, x(t), chartBottom, `stroke="#ddd"`)
		text(x(t)-8, chartBottom+16, `fill="#666"`, fmt.Sprintf("%d s", t/second))
	}
	queues := false
	for _, o := range outcomes {
		if !o.allowed {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%d" r="2.6" fill="none" stroke="#c0392b"/>`+"\n", x(o.at), rowDenied)
			continue
		}
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%d" r="2.6" fill="#1e8449"/>`+"\n", x(o.at), rowAllowed)
		if o.leaves > o.at && o.leaves < span {
			queues = true
			line(x(o.at), rowAllowed+3, x(o.leaves), rowLeaves, `stroke="#aed6f1"`)
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%d" r="2.2" fill="#2e86c1"/>`+"\n", x(o.leaves), rowLeaves)
		}
	}
	text(4, rowDenied+4, `fill="#c0392b" font-size="10"`, "denied")
	text(4, rowAllowed+4, `fill="#1e8449" font-size="10"`, "allowed")
	if queues {
		text(4, rowLeaves+4, `fill="#2e86c1" font-size="10"`, "goes on")
	}

	dashed := func(units int64, name string) {
		line(left, y(units), width-right, y(units), `stroke="#888" stroke-dasharray="4 3"`)
		text(width-right, y(units)-3, `fill="#666" font-size="10" text-anchor="end"`, name)
	}
	if quota := term.Quota; quota == bound {
		dashed(bound, fmt.Sprintf("quota and bound %d", bound))
	} else {
		dashed(quota, fmt.Sprintf("quota %d", quota))
		dashed(bound, fmt.Sprintf("bound %d", bound))
	}
	fmt.Fprintf(&b, `<path d="M%d %d`, left, chartBottom)
	for t := int64(0); t <= span; t += second / 2 {
		fmt.Fprintf(&b, " L%.1f %.1f", x(t), y(admitted(outcomes, t)))
	}
	fmt.Fprintf(&b, ` L%d %d Z" fill="#1e8449" fill-opacity="0.18" stroke="#1e8449"/>`+"\n", width-right, chartBottom)
	text(left+4, chartBottom-6, `fill="#1e8449" font-size="10"`, "allowed in the last 60 s")
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// admitted counts what was allowed in the minute up to t.
func admitted(outcomes []outcome, t int64) (n int64) {
	for _, o := range outcomes {
		if o.allowed && o.at <= t && o.at > t-60*second {
			n += o.units
		}
	}
	return n
}
