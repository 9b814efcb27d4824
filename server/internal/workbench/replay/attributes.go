// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// attributes are the [policy.Attributes] of an arrival. It records what the log lacks.
type attributes struct {
	*arrivals.Arrival
	lacks  map[lack]bool
	logged string // the host as it is logged, and in the form that rules compare
	host   string
	values [1]string
}

var _ policy.Attributes = (*attributes)(nil)

// lack is a part that a rule has asked for and that the log does not have.
type lack struct{ kind, name string }

// needs notes a part that the log does not have.
func (a *attributes) needs(part arrivals.Parts, kind, name string) {
	if of := (lack{kind, name}); a.Has&part == 0 && !a.lacks[of] {
		a.lacks[of] = true
	}
}

func (a *attributes) Method() string {
	a.needs(arrivals.Method, "method", "")
	return strings.ToUpper(a.Arrival.Method)
}

func (a *attributes) Host() string {
	if a.needs(arrivals.Host, "host", ""); a.logged != a.Arrival.Host {
		a.logged, a.host = a.Arrival.Host, wire.Host(a.Arrival.Host)
	}
	return a.host
}

// Path returns the path. That of a line that is no HTTP matches no pattern.
func (a *attributes) Path() string {
	a.needs(arrivals.Path, "path", "")
	path, _, _ := strings.Cut(a.Target, "?")
	if path == "*" {
		return "/*"
	}
	return path
}

func (a *attributes) Header(name string) []string {
	switch {
	case name == "Host":
		a.values[0] = a.Host()
	case name == "User-Agent" && a.Has&arrivals.Agent != 0:
		a.values[0] = a.Agent
	case name == "Referer" && a.Has&arrivals.Referer != 0:
		a.values[0] = a.Referer
	default:
		a.needs(arrivals.Headers, "header", name)
		return a.Headers[name]
	}
	if a.values[0] == "" {
		return nil
	}
	return a.values[:]
}

func (a *attributes) Query(name string) ([]string, error) {
	a.needs(arrivals.Query, "query", name)
	_, raw, _ := strings.Cut(a.Target, "?")
	values, ok := wire.AppendQuery(a.values[:0], raw, name)
	if !ok {
		return nil, errors.New(wire.QueryProblem)
	}
	return values, nil
}

// Cookie returns the values of a cookie. Servers that log all fields leave its value out, as it
// is a secret.
func (a *attributes) Cookie(name string) ([]string, error) {
	if values := a.Headers["Cookie"]; len(values) == 0 || values[0] == "REDACTED" {
		a.needs(0, "cookie", name)
		return nil, nil
	}
	values, problem := wire.Cookies(&http.Request{Header: a.Headers}, name)
	if problem != "" {
		return nil, errors.New(problem)
	}
	return values, nil
}

func (a *attributes) Client() netip.Addr {
	if a.needs(arrivals.Client, "client", ""); !a.Arrival.Client.IsValid() && a.Name != "" {
		a.needs(0, "address of clients that are logged by name", "")
	}
	return a.Arrival.Client
}

func (a *attributes) Claim(name string) (string, error) {
	a.needs(0, "claim", name)
	return "", nil
}

// Certificate returns the value of a [policy.Certificate] part.
func (a *attributes) Certificate(name string) (string, error) {
	a.needs(0, "client certificate's", name)
	return "", nil
}

// Descriptor returns the entries of a [policy.Descriptor] part: with a decision log, for the
// rules of [OfDecisions], the names of the rules that it has.
func (a *attributes) Descriptor(key string) ([]string, int) {
	if a.Record != nil {
		if a.values[0] = recordOf(a, key, "").Rule; a.values[0] == "" {
			return nil, 1
		}
		return a.values[:], 1
	}
	if key != "" {
		a.needs(0, "descriptor", key)
	}
	return nil, 0
}

func (a *attributes) Length() int64 {
	a.needs(arrivals.Read, "size of request bodies", "")
	return a.Read
}

// response returns the response as the log has it.
func (a *attributes) response() policy.Response {
	return policy.Response{Status: a.Status, Read: a.Read, Written: a.Written, Took: a.Took, Header: func(name string) []string {
		a.needs(0, "response header", name)
		return nil
	}}
}
