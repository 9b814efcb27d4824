// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// rules compiles the rules of a file.
func rules(t testing.TB, yaml string) *policy.Policy {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte("rules:\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c.Policy
}

// errorList collects the errors that a Middleware reports.
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

// guard is a handler under the rules of a file.
type guard struct {
	http.Handler
	*httplimit.Middleware
}

// newGuard returns a guard with the options o on a store of its own, whose errors fail the
// test.
func newGuard(t *testing.T, yaml string, next http.HandlerFunc, o httplimit.Options) *guard {
	t.Helper()
	o.Policy = rules(t, yaml)
	if o.Store == nil {
		o.Store = memstore.New(memstore.Options{})
	}
	if o.OnError == nil {
		o.OnError = func(_ *http.Request, err error) { t.Errorf("reported: %v", err) }
	}
	mw, err := httplimit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &guard{mw.Wrap(next), mw}
}

func echo(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

// requestOf returns a request of a client at 192.0.2.1.
func requestOf(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.1:4711"
	return r
}

// answer answers a request in full.
func answer(g http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}
