// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// reported returns the result of a request.
func reported(s *httplimit.Summary) string {
	return fmt.Sprintf("%v %d broken=%t sent=%d", s.Event.Verdict, s.Status, s.Broken, s.Written)
}

// TestOnEndOfSteps: without a writer that sees the response, OnEnd is called once, when the
// request is settled or refused.
func TestOnEndOfSteps(t *testing.T) {
	var ends []string
	mw := newMiddleware(t, httplimit.Options{
		Rules: []policy.Rule{rule(t, "a", httplimit.ByIP(), "1/min")}, Store: memstore.New(memstore.Options{}),
		Skip:  func(r *http.Request) bool { return r.URL.Path == "/skipped" },
		OnEnd: func(_ *http.Request, s *httplimit.Summary) { ends = append(ends, reported(s)) },
	})
	for _, path := range []string{"/skipped", "/", "/"} {
		q := mw.Decide(request(t, path))
		if !q.Allowed() {
			q.Refuse(httptest.NewRecorder())
			continue
		}
		q.Settle(httplimit.Response{Status: 204, Written: 3, Read: -1})
		q.Settle(httplimit.Response{Status: 500})
	}
	want := []string{"allowed 204 broken=false sent=3", "denied 429 broken=false sent=230"}
	if len(ends) != 2 || ends[0] != want[0] || !strings.HasPrefix(ends[1], "denied 429 broken=false sent=") {
		t.Errorf("got %q, want %q", ends, want)
	}
}

// TestOnEndOfOwn: a client that asks for its own limits has no verdict.
func TestOnEndOfOwn(t *testing.T) {
	ends := 0
	p := rules(t, "  - {name: a, by: ip, limits: 1/min}")
	store := memstore.New(memstore.Options{})
	askers, err := sluice.New(store, "askers", sluice.PerMinute(30))
	if err != nil {
		t.Fatal(err)
	}
	own, err := httplimit.NewOwn(p, store, askers, httplimit.Draft11, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	mw := newMiddleware(t, httplimit.Options{Policy: p, Store: store, Own: own, OnEnd: func(_ *http.Request, s *httplimit.Summary) {
		if ends++; !s.Own || s.Event.Evaluated != nil || s.Status != http.StatusOK {
			t.Errorf("own %t, evaluated %v, status %d", s.Own, s.Event.Evaluated, s.Status)
		}
	}})
	ask(t, mw.Wrap(ok), httplimit.OwnPath)
	if ends != 1 {
		t.Errorf("reported %d times", ends)
	}
}
