// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
)

// A server under the rules of a file, such as those that the sluice program reads.
func ExampleParse() {
	const file = `
client_ip: {trusted: 10.0.0.0/8}

rules:
  - name: login
    match: {method: POST, path: /login}
    by: ip
    limits: 1/min
  - name: api
    match: {path: /v1/}
    by: header.X-Api-Key
    limits: [2/s, 1000/day]
`
	c, err := config.Parse("limits.yaml", []byte(file)) // or config.Load of a file's name
	if err != nil {
		log.Fatal(err)
	}
	mw, err := httplimit.New(httplimit.Options{
		Store:   memstore.New(memstore.Options{}),
		Policy:  c.Policy,
		Trusted: c.ClientIP.Trusted, ClientHeader: c.ClientIP.Header, ClientHops: int(c.ClientIP.Hops),
		Allow: c.Allow, Deny: c.Deny,
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	ok := func(http.ResponseWriter, *http.Request) {}
	mux.HandleFunc("POST /login", ok)
	mux.HandleFunc("GET /v1/items", ok)
	handler := mw.Wrap(mux)

	for _, line := range []string{"POST /login ", "POST /login ", "GET /v1/items k1", "GET /v1/items "} {
		method, rest, _ := strings.Cut(line, " ")
		path, key, _ := strings.Cut(rest, " ")
		r := httptest.NewRequest(method, path, http.NoBody)
		if key != "" {
			r.Header.Set("X-Api-Key", key)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(method, path, w.Code)
	}
	// Output:
	// POST /login 200
	// POST /login 429
	// GET /v1/items 200
	// GET /v1/items 400
}

// TestErrors: the faults of a file are typed errors with a place.
func TestErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sluice.yaml")
	if _, err := config.Load(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := config.Load(filepath.Dir(name)); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: got %v", err)
	}
	if err := os.WriteFile(name, []byte("rules:\n  - {name: a, by: ip, limits: 5/fortnight}\n  - {name: b, by: ip, limit: 1/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(name)
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != 2 {
		t.Fatalf("got %v", err)
	}
	if f := faults[0]; f.File != name || f.Line != 2 || f.Column != 33 || f.Error() != name+":2:33: "+f.Problem {
		t.Errorf("got %+v", f)
	}
}

// TestClaimsOfAPI: clients of an API, and of the Redis protocol, name the claims and the
// certificate of a described request, so that rules may use them without tokens and without a
// client_ca.
func TestClaimsOfAPI(t *testing.T) {
	t.Parallel()
	const rules = "rules: [{name: a, by: claim.sub, limits: 1/min}, {name: b, by: cert.cn, limits: 1/min}]\n"
	for _, kind := range []string{"api", "resp"} {
		if _, err := config.Parse("f", []byte("listen: {address: 127.0.0.1:1, serve: "+kind+"}\n"+rules)); err != nil {
			t.Error(err)
		}
	}
	if _, err := config.Parse("f", []byte("listen: 127.0.0.1:1\n"+rules)); err == nil {
		t.Error("without an API the rules are accepted")
	}
}
