// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Record describes a request. A front records each request twice: when it is decided, before
// it may pass, and when it has ended. The Record and all values that it points to are valid
// until the sink returns.
type Record struct {
	Ended   bool              // the request is over
	Front   string            // the kind of front
	Event   evaluate.Event    // the verdict; zero if Own
	Request policy.Attributes // of the request

	// The following are as the client sent them, and empty where the protocol has none.
	Method, Host, Target, Proto string

	Peer string // address of the peer, with its port

	// Status is the status of the answer in the front's protocol. Of a request that passes it is
	// known when the request has ended: in HTTP it is 499 if the client left before the response,
	// and 0 if there was none for another reason.
	Status int

	// The following are known when the request has ended.

	Own      bool      // a client has asked for its own limits: nothing was decided
	Broken   bool      // the response broke off, or the client left before it
	Route    string    // of the request in the configuration
	At       time.Time // when the request came
	Took     time.Duration
	In, Out  int64     // bytes of the bodies of the request, -1 if not known, and of the response
	Upstream *Upstream // nil if the request was not passed on
}

// FromHTTP sets what an HTTP client sent.
func (r *Record) FromHTTP(q *http.Request) {
	r.Method, r.Host, r.Target, r.Proto, r.Peer = q.Method, q.Host, q.RequestURI, q.Proto, q.RemoteAddr
}

// HTTP reports whether the request is one of HTTP.
func (r *Record) HTTP() bool { return strings.HasPrefix(r.Proto, "HTTP/") }

// Upstream is the outcome of a request at an upstream.
type Upstream = exchange.Upstream

// Sink counts or logs requests. Record is called by many goroutines at the same time. It must be
// quick, and must not keep r.
type Sink interface {
	Record(ctx context.Context, r *Record)
}

// SinkFunc is a function as a [Sink].
type SinkFunc func(ctx context.Context, r *Record)

// Record calls f.
func (f SinkFunc) Record(ctx context.Context, r *Record) { f(ctx, r) }

// Recorder records the requests of a front. It is safe for concurrent use.
type Recorder struct {
	Front string // the kind of front
	Sinks []Sink // called in order

	unused sync.Pool // of *Record
}

// Record passes a Record to the sinks. The function fill sets its fields, apart from Front.
func (t *Recorder) Record(ctx context.Context, fill func(*Record)) {
	r, ok := t.unused.Get().(*Record)
	if !ok {
		r = new(Record)
	}
	r.Front = t.Front
	fill(r)
	for _, sink := range t.Sinks {
		sink.Record(ctx, r)
	}
	*r = Record{}
	t.unused.Put(r)
}
