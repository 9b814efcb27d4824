// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/sluicegate/sluice/policy"
)

// request is one request on its way through a Guard. It is used again.
type request struct {
	guard      *Guard
	w          http.ResponseWriter
	r          *http.Request
	client     netip.Addr
	attributes attributes
	verdict    policy.Verdict
	// These two are never used again: who passes the request on may touch them
	// after it has been answered.
	recorder *recorder
	body     *countedBody // nil if the request has none

	claims   func(string) (string, error)
	token    error // why there are no claims; nil also if there is no token
	verified bool
	claim    func(string) (string, error) // c.lookUp, made once
}

func (c *request) begin(g *Guard, w http.ResponseWriter, r *http.Request, client netip.Addr) {
	c.guard, c.w, c.r, c.client = g, w, r, client
	if c.claim == nil {
		c.claim = c.lookUp
	}
	var claims func(string) (string, error)
	if g.opts.Claims != nil {
		claims = c.claim
	}
	c.attributes.Reset(r, client, claims)
	c.attributes.switches = maySwitch(r)
}

// end lets go of all that belongs to the request.
func (c *request) end() {
	c.guard, c.w, c.r, c.client = nil, nil, nil, netip.Addr{}
	c.claims, c.token, c.verified = nil, nil, false
	c.attributes = attributes{}
	c.recorder, c.body = nil, nil
}

// lookUp returns a claim of the request's token, which is verified at the first.
func (c *request) lookUp(name string) (string, error) {
	if !c.verified {
		c.verify()
		c.verified = true
		if c.claims == nil && c.token == nil && c.guard.opts.TokenRequired {
			c.token = policy.ErrNoToken
		}
	}
	if c.claims == nil {
		return "", c.token
	}
	value, err := c.claims(name)
	if err == nil {
		return value, nil
	}
	if token, ok := errors.AsType[*policy.TokenError](err); ok {
		return "", token
	}
	if claim, ok := errors.AsType[*policy.ClaimError](err); ok {
		return "", claim
	}
	c.guard.report(c.r, err)
	return "", &policy.ClaimError{Problem: "cannot be read", Err: err}
}

// verify asks for the claims of the request's token. What is no TokenError is not
// for the client.
func (c *request) verify() {
	claims, err := c.guard.opts.Claims(c.r)
	if err == nil {
		c.claims, c.token = claims, nil
		return
	}
	token, ok := errors.AsType[*policy.TokenError](err)
	if !ok {
		c.guard.report(c.r, err)
		token = &policy.TokenError{Problem: "the token cannot be verified", Err: err}
	}
	c.claims, c.token = nil, token
}

func (c *request) serve() {
	g, v := c.guard, &c.verdict
	g.judge.Decide(c.r.Context(), &c.attributes, v)
	if g.opts.OnVerdict != nil {
		g.opts.OnVerdict(v)
	}
	g.report(c.r, v.Err)
	if !v.Allowed {
		c.deny()
		return
	}
	if v.Decision.Delay > 0 && !c.hold() {
		return
	}
	c.tell()
	c.pass(g.pacesOf(c.r, v))
}

// pass gives the request to Next and puts right afterwards what it has cost,
// also if Next panics.
func (c *request) pass(paces paces) {
	g, v := c.guard, &c.verdict
	seen := c.r
	c.recorder = &recorder{ResponseWriter: c.w, head: c.r.Method == http.MethodHead, pace: paces.response, requests: paces.request}
	if c.r.Body != nil && c.r.Body != http.NoBody {
		c.body = &countedBody{ReadCloser: c.r.Body, pace: paces.request}
		copied := *c.r // a handler must not change its request
		copied.Body = c.body
		seen = &copied
	}
	stop := func() {}
	if lease := v.Lease(); lease > 0 {
		stop = g.renew(c.r, v, lease)
	}
	defer func() {
		stop()
		c.settle()
	}()
	g.opts.Next.ServeHTTP(c.recorder, seen)
	c.recorder.returned = true
}

// settle corrects what the request was charged.
func (c *request) settle() {
	resp := policy.Response{Status: c.recorder.response(), Header: c.header, Written: c.recorder.written.Load(), Read: c.recorder.read.Load(), Unseen: c.recorder.unseen()}
	if c.body != nil {
		resp.Read += c.body.end()
	}
	c.guard.report(c.r, c.verdict.Settle(c.r.Context(), resp))
}

func (c *request) header(name string) []string { return c.w.Header()[name] }
