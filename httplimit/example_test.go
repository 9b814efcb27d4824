// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
)

// show sends a request to h and prints the answer's status.
func show(h http.Handler, target string, lines ...[2]string) {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for _, line := range lines {
		r.Header.Set(line[0], line[1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	fmt.Println(target, rec.Code)
}

// hello is the application behind the limits.
func hello(w http.ResponseWriter, _ *http.Request) {
	if _, err := fmt.Fprintln(w, "hello"); err != nil {
		log.Print(err)
	}
}

// Three requests of one address, of which two a minute are allowed.
func Example() {
	store := memstore.New(memstore.Options{})
	mw, err := httplimit.Limit(store, "api", httplimit.ByIP(), sluice.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)
	handler := mw.Wrap(mux) // http.ListenAndServe(addr, handler)

	for range 3 {
		show(handler, "/")
	}
	// Output:
	// / 200
	// / 200
	// / 429
}

// Behind a proxy the client's address is in a header, which is believed only
// of the proxy.
func ExampleByClientIP() {
	key := httplimit.ByClientIP(httplimit.ClientIP{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Header:  "X-Forwarded-For",
	})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 198.51.100.7")
	for _, peer := range []string{"10.0.0.1:4711", "203.0.113.9:4711"} {
		r.RemoteAddr = peer
		k, err := key.Of(r)
		fmt.Println(k, err)
	}
	// Output:
	// 198.51.100.7 <nil>
	// 203.0.113.9 <nil>
}

// A request must pass both rules, and is charged under both or neither: one
// counts the requests of a user, the other the bytes sent to an address.
func ExampleNew() {
	users, err := sluice.Compile("users", sluice.MustParseLimit("per-user: 2/min"))
	if err != nil {
		log.Fatal(err)
	}
	traffic, err := sluice.Compile("traffic", sluice.MustParseLimit("per-address: 100MB/min sliding-counter debt 100MB"))
	if err != nil {
		log.Fatal(err)
	}
	mw, err := httplimit.New(httplimit.Options{
		Store: memstore.New(memstore.Options{}),
		Rules: []httplimit.Rule{
			{Plan: users, Key: httplimit.ByHeader("X-User-Id")},
			{Plan: traffic, Key: httplimit.ByIP(), Cost: httplimit.ResponseBytes()},
		},
		OnDecision: func(_ *http.Request, e httplimit.Event) {
			fmt.Println(e.Verdict, e.Violated)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := mw.Wrap(http.HandlerFunc(hello))
	for range 3 {
		show(handler, "/", [2]string{"X-User-Id", "u1"})
	}
	show(handler, "/")
	// Output:
	// allowed []
	// / 200
	// allowed []
	// / 200
	// denied [per-user]
	// / 429
	// refused []
	// / 400
}

// Each route has a budget of its own for each user, or for each address where
// no user is known.
func ExampleJoin() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /search", func(http.ResponseWriter, *http.Request) {})
	who := httplimit.FirstOf(httplimit.ByHeader("X-User-Id"), httplimit.ByIP())
	mw, err := httplimit.Limit(memstore.New(memstore.Options{}), "api", httplimit.Join(httplimit.ByRoute(mux), who), sluice.PerMinute(1))
	if err != nil {
		log.Fatal(err)
	}
	handler := mw.Wrap(mux)
	show(handler, "/items/1")
	show(handler, "/items/2") // the same route
	show(handler, "/search")
	show(handler, "/search", [2]string{"X-User-Id", "u1"})
	// Output:
	// /items/1 200
	// /items/2 429
	// /search 200
	// /search 200
}

// Only failed logins count: what succeeded is given back.
func ExampleRule_refundOn() {
	plan, err := sluice.Compile("login", sluice.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	mw, err := httplimit.New(httplimit.Options{
		Store:   memstore.New(memstore.Options{}),
		Failure: httplimit.FailClosed, // better no login than any number of guesses
		Rules: []httplimit.Rule{{
			Plan: plan, Key: httplimit.ByIP(),
			RefundOn: func(status int) bool { return status == http.StatusOK },
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	login := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "right" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	for _, password := range []string{"right", "right", "right", "wrong", "guess", "right"} {
		show(login, "/login?password="+password)
	}
	// Output:
	// /login?password=right 200
	// /login?password=right 200
	// /login?password=right 200
	// /login?password=wrong 403
	// /login?password=guess 403
	// /login?password=right 429
}

// The answer to a request that is not passed on can be the application's own.
func ExampleOptions_refuse() {
	plan, err := sluice.Compile("api", sluice.PerHour(1))
	if err != nil {
		log.Fatal(err)
	}
	mw, err := httplimit.New(httplimit.Options{
		Store: memstore.New(memstore.Options{}),
		Rules: []httplimit.Rule{{Plan: plan, Key: httplimit.ByQuery("userId")}},
		Refuse: func(w http.ResponseWriter, _ *http.Request, e httplimit.Event) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(e.Status)
			if _, err := fmt.Fprintf(w, `{"status":"rate_limited","userId":%q}`, e.Charge.Key); err != nil {
				log.Print(err)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := mw.Wrap(http.NotFoundHandler())
	for range 2 {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?userId=u1", nil))
		fmt.Println(rec.Code, rec.Body)
	}
	// Output:
	// 404 404 page not found
	//
	// 429 {"status":"rate_limited","userId":"u1"}
}
