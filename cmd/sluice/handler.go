// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gateway"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// scopes are whose budgets the limits are, by what they count: each unit has
// its own cost, so that requests and bytes are two rules. They are part of what
// --state keeps.
var scopes = map[sluice.Unit]string{sluice.Requests: "gateway", sluice.Bytes: "gateway.bytes"}

// handler returns what answers clients: limits around the upstream or the sample
// app.
func (s *server) handler() (http.Handler, error) {
	var err error
	o := httplimit.Options{
		Store: s.metrics.Wrap(s.decider()), Rules: s.rules(), Fields: s.fields, OnDecision: s.metrics.CountHTTP,
	}
	if s.redis != nil {
		o.OnError = s.redis.report
	}
	var next http.Handler
	if s.upstream == "" {
		app := newSampleApp()
		next, o.Refuse = app, app.refuse
	} else if next, err = gateway.New(s.upstream, gateway.Options{
		Trusted: s.trusted, UpstreamHost: s.upstreamHost, StallTimeout: stallTimeout, Log: s.log,
	}); err != nil {
		return nil, err
	}
	mw, err := httplimit.New(o)
	if err != nil {
		return nil, err
	}
	return mw.Wrap(next), nil
}

// rules returns one rule for the limits of each unit, under one key.
func (s *server) rules() []policy.Rule {
	var rules []policy.Rule
	for _, unit := range []sluice.Unit{sluice.Requests, sluice.Bytes} {
		var of []sluice.Limit
		for _, l := range s.limits {
			if l.Unit == unit {
				of = append(of, l)
			}
		}
		if len(of) == 0 {
			continue
		}
		rule := policy.NewRule(scopes[unit], s.key, of...)
		if s.redis != nil && s.shared.failure != sluice.FailOpen {
			rule.Failure = policy.Closed
		}
		rules = append(rules, rule)
	}
	return rules
}
