// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package limittest holds the tests for every adapter, with real clients of a real server.
package limittest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// Start serves an application of a framework, limited by mw, until the end of the test, and
// returns its URL. Each of its targets responds in a different way of the framework:
//
//	POST /login/WAY  fails
//	GET /bytes       answers 1000 bytes
//	GET /stream      sends 500 bytes, waits for Release, and sends 500 more
//	POST /upload     reads its body
//	GET /wait        reports Started, waits for Release, and answers 401
//	GET /gone        reports Started and answers nothing once its client has left, or
//	                 401 where the framework does not report it
//	GET /gone/failed reports Started and answers 500 once its client has left; where
//	                 the framework reports
//	GET /panic       panics within the framework's recover
//	GET /hijack      answers 101, and then echoes the bytes of the connection
//	GET /nothing     writes nothing
//	GET /header      answers with the value of the field X-User
type Start func(t *testing.T, mw *httplimit.Middleware, s *Signals) (url string)

// Signals connect handlers and tests.
type Signals struct {
	Started chan struct{} // receives a value for every request
	Release chan struct{} // is closed, or receives a value for every request
}

// Whole is the body of /bytes and /stream, and Chunk a half of it.
var (
	Whole = bytes.Repeat([]byte("x"), 1000)
	Chunk = Whole[:500]
)

// client is the key of the tests' requests.
const client = "127.0.0.1"

// Site is a limited application and its store, whose clock does not advance.
type Site struct {
	*Signals
	URL    string
	Store  sluice.Store
	client *http.Client
}

// Serve starts an application under opts, whose store it makes.
func Serve(t *testing.T, start Start, opts httplimit.Options) *Site {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	s := &Site{
		Signals: &Signals{Started: make(chan struct{}, 100), Release: make(chan struct{}, 100)},
		Store:   memstore.New(memstore.Options{Now: func() time.Time { return now }}),
	}
	transport := new(http.Transport) // of its own, as another application may have had the port before
	s.client = &http.Client{Transport: transport}
	opts.Store = s.Store
	if opts.OnError == nil {
		opts.OnError = func(_ *http.Request, err error) { t.Error(err) }
	}
	mw, err := httplimit.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.URL = start(t, mw, s.Signals)
	t.Cleanup(transport.CloseIdleConnections) // before the application waits for them
	return s
}

// Rule returns a rule that limits each client's address.
func Rule(t *testing.T, limit string) policy.Rule {
	t.Helper()
	l, err := sluice.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewRule("api", policy.IP(), l)
}

// Counting returns a rule that counts answers of one status.
func Counting(t *testing.T, limit string, status int, hold bool) policy.Rule {
	t.Helper()
	r := Rule(t, limit)
	r.When = &policy.When{Status: []policy.Status{policy.Code(status)}, ChargeFirst: hold}
	return r
}

// OneAtATime returns a rule of one request in flight.
func OneAtATime() policy.Rule {
	r := policy.NewRule("slots", policy.IP())
	r.Levels[0].InFlight = &sluice.SlotLimit{Name: "running", Cap: 1, TTL: time.Minute}
	return r
}

// Spent returns the units of a limit of the rule api that the tests' client has spent.
func (s *Site) Spent(t *testing.T, limit string) int64 {
	t.Helper()
	l, err := sluice.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sluice.Compile("api", l)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Store.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: p, Key: client}})
	if err != nil {
		t.Fatal(err)
	}
	return p.Term(0).Full - d.Remaining
}

// Reach waits until that many units of a limit are spent.
func (s *Site) Reach(t *testing.T, limit string, want int64) {
	t.Helper()
	until(t, fmt.Sprintf("%d units to be spent", want), func() bool { return s.Spent(t, limit) == want })
}

// Answer is the response that a client has read.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ask sends a request and reads its answer. Fields are written "Name: value".
func (s *Site) Ask(t *testing.T, method, target string, body io.Reader, fields ...string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+target, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Add(name, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{resp.StatusCode, resp.Header, string(got)}
}

// Get returns the status of an answer.
func (s *Site) Get(t *testing.T, target string, fields ...string) int {
	t.Helper()
	return s.Ask(t, http.MethodGet, target, http.NoBody, fields...).Status
}

// Dial connects to the application, and sends a request.
func (s *Site) Dial(t *testing.T, request string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // most tests have closed it
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}
