// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/internal/exchange"
)

// TestSettlements: a handler that passes a request on takes over the settlements of all
// handlers around it, once.
func TestSettlements(t *testing.T) {
	var did []string
	settlement := func(name string) *exchange.Settlement {
		return &exchange.Settlement{
			Settle:  func(o exchange.Outcome) { did = append(did, fmt.Sprint(name, " settles ", o.Status)) },
			Presume: func() { did = append(did, name+" presumes") },
			Keys:    slices.Values([]string{name + "1", name + "2"}),
		}
	}
	r := post(t, "")
	outer, w := exchange.Count(httptest.NewRecorder(), r)
	inner, w := exchange.Count(w, r)
	_, w = exchange.Begin(struct{ unwrapper }{unwrapper{w}}, r) // with a foreign writer in between
	if exchange.Settles(w) {
		t.Error("settles, and nobody has to")
	}
	outer.Settlement, inner.Settlement = settlement("outer"), settlement("inner")
	if !exchange.Settles(w) {
		t.Error("does not settle, and two have to")
	}
	if got, want := slices.Collect(exchange.Keys(w)), []string{"inner1", "inner2", "outer1", "outer2"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
	for range exchange.Keys(w) {
		break // no panic
	}
	settle, again := exchange.TakeOver(w), exchange.TakeOver(w)
	if !outer.Settlement.Taken() || !inner.Settlement.Taken() || exchange.Settles(w) {
		t.Error("not taken")
	}
	settle(exchange.Outcome{Status: http.StatusTeapot})
	again(exchange.Outcome{Status: http.StatusOK})
	if want := []string{"inner presumes", "outer presumes", "inner settles 418", "outer settles 418"}; !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
}

// unwrapper is a writer of another package.
type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }
