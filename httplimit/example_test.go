// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// show sends a request such as "GET /" to h and prints the answer's status.
func show(h http.Handler, request string, lines ...[2]string) {
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, target, nil)
	for _, line := range lines {
		r.Header.Set(line[0], line[1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	fmt.Println(request, rec.Code)
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
	mw, err := httplimit.Limit(store, "api", policy.IP(), sluice.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)
	handler := mw.Wrap(mux) // http.ListenAndServe(addr, handler)

	for range 3 {
		show(handler, "GET /")
	}
	// Output:
	// GET / 200
	// GET / 200
	// GET / 429
}

// A request must pass both rules, and is charged under both or neither: one
// counts the requests of a user, the other the bytes sent to an address.
func ExampleNew() {
	mw, err := httplimit.New(httplimit.Options{
		Store: memstore.New(memstore.Options{}),
		Rules: []policy.Rule{
			policy.NewRule("per-user", policy.Header("X-User-Id"), sluice.PerMinute(2)),
			policy.NewRule("per-address", policy.IP(), sluice.MustParseLimit("100MB/min sliding-counter debt 100MB")),
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
		show(handler, "GET /", [2]string{"X-User-Id", "u1"})
	}
	show(handler, "GET /")
	// Output:
	// allowed []
	// GET / 200
	// allowed []
	// GET / 200
	// denied [per-user]
	// GET / 429
	// refused []
	// GET / 400
}

// Only failed log-ins count. While the store is unavailable, log-in is denied, as guesses would
// otherwise be unlimited.
func ExampleNew_failedLogins() {
	login := policy.NewRule("login", policy.IP(), sluice.PerMinute(2))
	login.When = &policy.When{Status: []policy.Status{policy.Code(http.StatusForbidden)}}
	login.Failure = sluice.FailClosed
	mw, err := httplimit.New(httplimit.Options{Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{login}})
	if err != nil {
		log.Fatal(err)
	}
	handler := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "right" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		hello(w, r)
	}))
	for _, password := range []string{"right", "right", "right", "wrong", "guess", "right"} {
		show(handler, "POST /login?password="+password)
	}
	// Output:
	// POST /login?password=right 200
	// POST /login?password=right 200
	// POST /login?password=right 200
	// POST /login?password=wrong 403
	// POST /login?password=guess 403
	// POST /login?password=right 429
}

// The handlers of this framework return their responses and have no ResponseWriter, so the
// framework itself decides each request, and settles it by the response.
func ExampleMiddleware_Decide() {
	rule := policy.NewRule("login", policy.IP(), sluice.PerMinute(2))
	rule.When = &policy.When{Status: []policy.Status{policy.Code(http.StatusUnauthorized)}}
	mw, err := httplimit.New(httplimit.Options{Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{rule}})
	if err != nil {
		log.Fatal(err)
	}

	login := func(r *http.Request) (status int, body string) {
		if r.FormValue("password") != "right" {
			return http.StatusUnauthorized, "wrong password\n"
		}
		return http.StatusOK, "welcome\n"
	}

	framework := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := mw.Decide(r)
		if !q.Allowed() {
			q.Refuse(w)
			return
		}
		// If login panics, its response is not seen, and the request counts.
		resp := policy.Response{Read: -1, Unseen: true}
		defer func() { q.Settle(resp) }()
		status, body := login(q.HTTP())
		q.SetFields(w.Header())
		w.WriteHeader(status)
		n, err := io.WriteString(w, body)
		if err != nil {
			log.Print(err)
		}
		resp = policy.Response{Status: status, Header: w.Header().Values, Read: -1, Written: int64(n)}
	})
	for _, password := range []string{"right", "wrong", "guess", "right"} {
		show(framework, "POST /login?password="+password)
	}
	// Output:
	// POST /login?password=right 200
	// POST /login?password=wrong 401
	// POST /login?password=guess 401
	// POST /login?password=right 429
}

// Behind a proxy the client's address is in a header field, which is trusted only from the
// proxy.
func ExampleOptions_trusted() {
	mw, err := httplimit.New(httplimit.Options{
		Store:      memstore.New(memstore.Options{}),
		Rules:      []policy.Rule{policy.NewRule("api", policy.IP(), sluice.PerMinute(100))},
		Trusted:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		OnDecision: func(_ *http.Request, e httplimit.Event) { fmt.Println(e.Charge.Key) },
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := mw.Wrap(http.HandlerFunc(hello))
	for _, peer := range []string{"10.0.0.1:4711", "203.0.113.9:4711"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", "1.1.1.1, 198.51.100.7")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// 198.51.100.7
	// 203.0.113.9
}

// Each route has a budget for each user, or for each address if no user is known.
func ExampleJoin() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", hello)
	mux.HandleFunc("GET /search", hello)
	who := policy.First(policy.Header("X-User-Id"), policy.IP())
	mw, err := httplimit.Limit(memstore.New(memstore.Options{}), "api", policy.All(httplimit.ByRoute(mux), who), sluice.PerMinute(1))
	if err != nil {
		log.Fatal(err)
	}
	handler := mw.Wrap(mux)
	show(handler, "GET /items/1")
	show(handler, "GET /items/2") // the same route
	show(handler, "GET /search")
	show(handler, "GET /search", [2]string{"X-User-Id", "u1"})
	// Output:
	// GET /items/1 200
	// GET /items/2 429
	// GET /search 200
	// GET /search 200
}

// The application can write the answer to a request that is not passed on.
func ExampleOptions_refuse() {
	mw, err := httplimit.New(httplimit.Options{
		Store: memstore.New(memstore.Options{}),
		Rules: []policy.Rule{policy.NewRule("api", policy.Query("userId"), sluice.PerHour(1))},
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
	handler := mw.Wrap(http.HandlerFunc(hello))
	for range 2 {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?userId=u1", nil))
		fmt.Println(rec.Code, strings.TrimSpace(rec.Body.String()))
	}
	// Output:
	// 200 hello
	// 429 {"status":"rate_limited","userId":"u1"}
}
