// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// attributes are the [policy.Attributes] of an arrival. What the log does not have is noted.
type attributes struct {
	of     *arrivals.Arrival
	lacks  lacks
	as     string // the host as it is logged, and in the form that rules compare
	host   string
	values [1]string
}

var _ policy.Attributes = (*attributes)(nil)

// lacks are the parts that rules have asked for and that the log does not have.
type lacks map[lack]struct{}

type lack struct{ kind, name string }

func (l lacks) note(kind, name string) {
	if _, known := l[lack{kind, name}]; !known {
		l[lack{kind, name}] = struct{}{}
	}
}

// list returns the parts in words.
func (l lacks) list() (all []string) {
	for of := range l {
		all = append(all, strings.TrimSpace(of.kind+" "+of.name))
	}
	slices.Sort(all)
	return all
}

// has reports whether the log has a part, and notes it if not.
func (r *attributes) has(part arrivals.Parts, kind, name string) bool {
	if r.of.Has&part != 0 {
		return true
	}
	r.lacks.note(kind, name)
	return false
}

func (r *attributes) Method() string {
	if !r.has(arrivals.Method, "method", "") {
		return ""
	}
	return strings.ToUpper(r.of.Method)
}

func (r *attributes) Host() string {
	if !r.has(arrivals.Host, "host", "") {
		return ""
	}
	if r.as != r.of.Host {
		r.as, r.host = r.of.Host, wire.Host(r.of.Host)
	}
	return r.host
}

// Path returns the path. That of a line that is no HTTP matches no pattern.
func (r *attributes) Path() string {
	if !r.has(arrivals.Path, "path", "") {
		return ""
	}
	path, _, _ := strings.Cut(r.of.Target, "?")
	if path == "*" {
		return "/*"
	}
	return path
}

func (r *attributes) Header(name string) []string {
	var value string
	switch {
	case name == "Host":
		value = r.Host()
	case r.of.Has&arrivals.Headers != 0:
		return r.of.Headers[name]
	case name == "User-Agent" && r.of.Has&arrivals.Agent != 0:
		value = r.of.Agent
	case name == "Referer" && r.of.Has&arrivals.Referer != 0:
		value = r.of.Referer
	default:
		r.lacks.note("header", name)
	}
	if value == "" || value == "-" {
		return nil
	}
	r.values[0] = value
	return r.values[:]
}

func (r *attributes) Query(name string) ([]string, error) {
	if !r.has(arrivals.Query, "query", name) {
		return nil, nil
	}
	_, raw, _ := strings.Cut(r.of.Target, "?")
	values, ok := wire.AppendQuery(r.values[:0], raw, name)
	if !ok {
		return nil, errors.New(wire.QueryProblem)
	}
	return values, nil
}

func (r *attributes) Cookie(name string) ([]string, error) {
	if len(r.of.Headers["Cookie"]) == 0 {
		r.lacks.note("cookie", name)
		return nil, nil
	}
	values, problem := wire.Cookies(&http.Request{Header: r.of.Headers}, name)
	if problem != "" {
		return nil, errors.New(problem)
	}
	return values, nil
}

func (r *attributes) Client() netip.Addr {
	if r.has(arrivals.Client, "client's address", "") && r.of.Name != "" {
		r.lacks.note("address of clients that are logged by name", "")
	}
	return r.of.Client
}

func (r *attributes) Claim(name string) (string, error) {
	r.lacks.note("claim", name)
	return "", nil
}

// Certificate returns the value of a [policy.Certificate] part.
func (r *attributes) Certificate(name string) (string, error) {
	r.lacks.note("client certificate's", name)
	return "", nil
}

func (r *attributes) Length() int64 {
	if !r.has(arrivals.Read, "size of request bodies", "") {
		return -1
	}
	return r.of.Read
}

// response returns the response as the log has it.
func (r *attributes) response() policy.Response {
	p := policy.Response{Status: r.of.Status, Read: r.of.Read, Written: r.of.Written, Took: r.of.Took}
	p.Header = func(name string) []string {
		r.lacks.note("response header", name)
		return nil
	}
	return p
}

// arrivalOf returns the arrival behind attributes of this package.
func arrivalOf(a policy.Attributes) *arrivals.Arrival {
	if of, ok := a.(*attributes); ok {
		return of.of
	}
	return new(arrivals.Arrival)
}
