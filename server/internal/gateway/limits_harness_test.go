// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"io"
	"net/http"
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

func newMiddleware(t testing.TB, o httplimit.Options) *httplimit.Middleware {
	t.Helper()
	mw, err := httplimit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return mw
}

// newGuard returns a handler under the rules of a file, on a store of its own. Errors fail
// the test.
func newGuard(t *testing.T, yaml string, next http.HandlerFunc) http.Handler {
	t.Helper()
	return newMiddleware(t, httplimit.Options{
		Policy: rules(t, yaml), Store: memstore.New(memstore.Options{}),
		OnError: func(_ *http.Request, err error) { t.Errorf("reported: %v", err) },
	}).Wrap(next)
}

func echo(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func write(t testing.TB, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Error(err)
	}
}
