// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

func TestCostIsSettled(t *testing.T) {
	tests := map[string]struct {
		cost     policy.Cost
		limit    string
		request  policy.Request
		response policy.Response
		before   int64
		after    int64
	}{
		"fixed": {
			cost: policy.Cost{Units: 7}, limit: "100/min fixed-window", before: 93, after: 93,
		},
		"response bytes": {
			cost: policy.Cost{Of: policy.ResponseBytes}, limit: "100B/min fixed-window",
			response: policy.Response{Written: 40}, before: 99, after: 60,
		},
		"response bytes of an empty body": {
			cost: policy.Cost{Of: policy.ResponseBytes}, limit: "100B/min fixed-window", before: 99, after: 100,
		},
		"request bytes with a length": {
			cost: policy.Cost{Of: policy.RequestBytes}, limit: "100B/min fixed-window",
			request: policy.Request{Length: 30}, response: policy.Response{Read: 30}, before: 70, after: 70,
		},
		"request bytes with a length that is a lie": {
			cost: policy.Cost{Of: policy.RequestBytes}, limit: "100B/min fixed-window",
			request: policy.Request{Length: 30}, response: policy.Response{Read: 10}, before: 70, after: 90,
		},
		"request bytes without a length": {
			cost: policy.Cost{Of: policy.RequestBytes}, limit: "100B/min fixed-window",
			request: policy.Request{Length: -1}, response: policy.Response{Read: 10}, before: 99, after: 90,
		},
		"request bytes with a length and a switch of protocol": {
			cost: policy.Cost{Of: policy.RequestBytes}, limit: "100B/min fixed-window",
			request: policy.Request{Length: 30}, response: policy.Response{Read: 50}, before: 70, after: 50,
		},
		"request bytes that are not known": {
			cost: policy.Cost{Of: policy.RequestBytes}, limit: "100B/min fixed-window",
			request: policy.Request{Length: 30}, response: policy.Response{Read: -1}, before: 70, after: 70,
		},
		"request header": {
			cost: policy.Cost{Of: policy.RequestHeader, Header: "x-cost", Most: 50}, limit: "100/min fixed-window",
			request: policy.Request{Headers: map[string][]string{"X-Cost": {"9"}}}, before: 91, after: 91,
		},
		"request header above most": {
			cost: policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 50}, limit: "100/min fixed-window",
			request: policy.Request{Headers: map[string][]string{"X-Cost": {"9000"}}}, before: 50, after: 50,
		},
		"request header unusable": {
			cost: policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 50, Units: 3}, limit: "100/min fixed-window",
			request: policy.Request{Headers: map[string][]string{"X-Cost": {"-1"}}}, before: 97, after: 97,
		},
		"response header": {
			cost: policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 50, Units: 10}, limit: "100/min fixed-window",
			response: policy.Response{Header: func(string) []string { return []string{"4"} }}, before: 90, after: 96,
		},
		"response bytes that nobody saw": {
			cost: policy.Cost{Of: policy.ResponseBytes}, limit: "100B/min fixed-window",
			response: policy.Response{Unseen: true}, before: 99, after: 99,
		},
		"request bytes of a response that nobody saw": {
			cost: policy.Cost{Of: policy.RequestBytes}, limit: "100B/min fixed-window",
			request: policy.Request{Length: -1}, response: policy.Response{Read: 10, Unseen: true}, before: 99, after: 90,
		},
		"response header that nobody saw": {
			cost: policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 50, Units: 10}, limit: "100/min fixed-window",
			response: policy.Response{Header: func(string) []string { return []string{"4"} }, Unseen: true}, before: 90, after: 90,
		},
		"response header missing": {
			cost: policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 50, Units: 10}, limit: "100/min fixed-window",
			before: 90, after: 90,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			shadow := one("shadow", nil, test.limit)
			shadow.Shadow, shadow.Cost = true, test.cost
			r := one("rule", nil, test.limit)
			r.Cost = test.cost
			w := newWorld(t, r, shadow)
			test.request.Path = "/"
			v := w.allow(test.request.Attributes())
			for _, rule := range []string{"rule", "shadow"} {
				if got := w.remaining(rule, "")[0]; got != test.before {
					t.Errorf("%s: %d left before the response, want %d", rule, got, test.before)
				}
			}
			w.settle(v, test.response)
			for _, rule := range []string{"rule", "shadow"} {
				if got := w.remaining(rule, "")[0]; got != test.after {
					t.Errorf("%s: %d left after the response, want %d", rule, got, test.after)
				}
			}
		})
	}
}

func TestCancelGivesBack(t *testing.T) {
	w := newWorld(t, one("a", nil, "5/min fixed-window"), one("b", by(policy.IP()), "5/min token-bucket"))
	v := w.allow(from("192.0.2.1"))
	if err := v.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Concat(w.remaining("a", ""), w.remaining("b", "", "192.0.2.1")), []int64{5, 5}; !slices.Equal(got, want) {
		t.Errorf("remaining %v, want %v", got, want)
	}
}

// TestTimeIsCharged: a request costs the time that it ran, without its delay.
func TestTimeIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := policy.NewRule("time", policy.IP(), sluice.PerHour(1000).WithAlgorithm(sluice.FixedWindow{}))
		r.Cost.Of = policy.Milliseconds
		queue := policy.NewRule("queue", policy.IP(), sluice.PerSecond(1).WithAlgorithm(sluice.LeakyBucket{}).WithBurst(2))
		store := memstore.New(memstore.Options{})
		evaluator, err := evaluate.New(evaluate.Options{Store: store, Rules: []policy.Rule{r, queue}})
		if err != nil {
			t.Fatal(err)
		}
		var call evaluate.Call
		for _, c := range []struct {
			ran      time.Duration
			reported policy.Response
			want     int64
		}{
			{0, policy.Response{}, 1},
			{time.Microsecond, policy.Response{}, 2},
			{300 * time.Millisecond, policy.Response{}, 302},
			{300*time.Millisecond + time.Nanosecond, policy.Response{Unseen: true}, 603},
			{time.Second, policy.Response{Took: 7 * time.Millisecond}, 610},
			{time.Hour / 2, policy.Response{}, 1000},
		} {
			evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
			if !call.Verdict.Passes() || !call.Settles() {
				t.Fatalf("got %v, settles %v", call.Verdict, call.Settles())
			}
			time.Sleep(c.ran)
			call.Settle(t.Context(), c.reported)
			e := evaluate.Plain{Policy: compile(t, r), Store: store}
			var v evaluate.Verdict
			e.Peek(t.Context(), client("192.0.2.1"), &v)
			if got := 1000 - v.Decision.Remaining; got != c.want {
				t.Errorf("ran %v: %d are spent, want %d", c.ran, got, c.want)
			}
		}
		if evaluator.Decide(t.Context(), client("192.0.2.1"), &call); call.Verdict != evaluate.Denied {
			t.Errorf("got %v, want a denial", call.Verdict)
		}
	})
}
