// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package front has what all fronts share. A front serves clients by one protocol: it turns a
// native request into Attributes, asks the evaluator, and turns the verdict into a native answer.
// Each front has a folder below, and a row in the table of package serve.
package front

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Front serves the clients of one entry of listen. It is safe for concurrent use.
type Front interface {
	// Listen returns l with the bounds that the protocol needs below TLS.
	Listen(l net.Listener) net.Listener
	// Serve serves the connections of l, and closes l. It returns nil after Shutdown or Close.
	Serve(l net.Listener) error
	// Prepare makes what the front needs to serve under s. The function use activates it between
	// two requests; it is called at most once.
	Prepare(s *Snapshot) (use func(), err error)
	// InFlight returns the number of requests in progress, 0 in a protocol without requests.
	InFlight() int
	// Shutdown accepts no more connections, and waits until all requests have ended or ctx ends.
	Shutdown(ctx context.Context) error
	// Close ends the requests in progress and closes all connections.
	Close() error
}

// Kind is a kind of front.
type Kind struct {
	Name string   // the word for it in a configuration
	ALPN []string // the protocols offered under TLS; nil: none
	// Gates says that the front applies the listener's limits of connections itself.
	Gates bool
	New   func(*config.Listener) (Front, error)
}

// Snapshot holds all that a front serves under, from one configuration.
type Snapshot struct {
	Config   *config.Config
	Listener *config.Listener
	Policy   *policy.Policy // the rules of the listener

	Store     sluice.Store
	Overrides *evaluate.Overrides
	Queue     *evaluate.Queue
	// Claims verifies the token of a request; nil if tokens are not verified.
	Claims func(*http.Request) (func(name string) (string, error), error)
	Sinks  []Sink
	// Trace returns a handler around next that begins the span of each decision.
	Trace   func(next http.Handler) http.Handler
	OnError func(context.Context, error)
	Now     func() time.Time
}
