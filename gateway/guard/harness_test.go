// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gateway/guard"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// rules returns the policy of a file's rules.
func rules(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte("rules:\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c.Policy
}

// errorList gathers what a Guard reports.
type errorList struct {
	mu   sync.Mutex
	list []error
}

func (l *errorList) report(_ *http.Request, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, err)
}

func (l *errorList) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// newGuard returns a Guard on a store of its own, whose errors fail the test,
// and which has only what o says beside.
func newGuard(t *testing.T, yaml string, next http.HandlerFunc, o guard.Options) *guard.Guard {
	t.Helper()
	o.Policy, o.Next = rules(t, yaml), next
	if o.Store == nil {
		o.Store = memstore.New(memstore.Options{})
	}
	if o.OnError == nil {
		o.OnError = func(_ *http.Request, err error) { t.Errorf("reported: %v", err) }
	}
	g, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func ok(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

// request returns one of a client at 192.0.2.1.
func request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.1:4711"
	return r
}

// ask answers a request in full.
func ask(g http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}
