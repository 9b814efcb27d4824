// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/profile"
)

// TestLike: a rule like a platform has its limits, status, delay and requests in flight unless
// it has its own; a limit like a platform has only the limits, at any place.
func TestLike(t *testing.T) {
	c := parse(t, `
listen:
  - {address: "127.0.0.1:5433", serve: tcp, upstream: "127.0.0.1:5432", connections: {like: stripe}}
  - 127.0.0.1:8080
rules:
  - {name: mws, by: ip, like: amazon-mws}
  - {name: uber, like: uber-go}
  - {name: github, like: github, status: 429, in_flight: 3, max_wait: 1s}
  - {name: list, limits: [1/day, {like: amazon-mws}, 9/week]}
  - name: places
    by: ip
    limits: {like: nginx}
    tiers: {by: header.X-Plan, limits: {pro: {like: api-gateway}}}
    overrides: [{key: 192.0.2.1, limits: {like: nginx-nodelay}, reason: x, author: eve}]
    candidates: {loose: [{like: nginx-delay}]}
  - name: levels
    levels: [{name: user, by: ip, limits: {like: shopify-rest}}]
`[1:])
	var got string
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		l := r.Levels[0]
		got += fmt.Sprintln(r.Name, l.Limits, r.Status, r.MaxWait)
		if l.InFlight != nil {
			got += fmt.Sprintln(l.InFlight.Cap)
		}
		if l.Tiers != nil {
			got += fmt.Sprintln(l.Tiers.Limits, l.Overrides[0].Limits, l.Candidates)
		}
	}
	got += fmt.Sprintln(c.Listen[0].Limits.Connections)
	const want = `mws [1/2min burst 15 30/hour fixed-window] 503 0s
uber [100/s burst 11 initial 1] 0 1h0m0s
github [60/hour fixed-window anchor first] 429 1s
3
list [1/day 1/2min burst 15 30/hour fixed-window 9/week] 0 0s
places [10/s burst 6 leaky-bucket] 0 0s
map[pro:[10000/s burst 5000]] [10/s burst 6 leaky-bucket nodelay] [{loose [5/s burst 13 leaky-bucket delay-after 9] map[]}]
levels [2/s burst 40 leaky-bucket nodelay] 0 0s
[100/s]
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestLikeAnswer: a rule's own answer is completed by the platform's.
func TestLikeAnswer(t *testing.T) {
	const fields = "fields: {X-Left: \"{remaining}\"}"
	for _, c := range []struct {
		like, answer string
		status       int
		body         string
		fields       int
		limits       int
	}{
		{"shopify-graphql", "status: 200", 200, "THROTTLED", 0, 0},
		{"shopify-graphql", fields, 0, "THROTTLED", 1, 0},
		{"amazon-mws", "denied: {X-Why: limits}", 0, "RequestThrottled", 3, 1},
		{"amazon-mws", "content_type: text/plain, body: no", 0, "no", 3, 0},
		{"zuul", "status: 503", 503, "", 3, 0},
	} {
		r := &parse(t, "rules: [{name: a, by: ip, like: "+c.like+", answer: {"+c.answer+"}}]").Policy.Rules()[0]
		a := r.Answer
		if a.Status != c.status || !strings.Contains(a.Body, c.body) || len(a.Fields) != c.fields || len(a.Limits) != c.limits {
			t.Errorf("like %s with %s: got %+v", c.like, c.answer, a)
		}
		if p, _ := profile.Get(c.like); (r.Status == 0) != (c.status != 0) || r.Status != 0 && r.Status != p.Status {
			t.Errorf("like %s with %s: status %d beside that of the answer", c.like, c.answer, r.Status)
		}
	}
}

// TestLikeEach: every profile can be used in a file.
func TestLikeEach(t *testing.T) {
	for _, p := range profile.All() {
		c := parse(t, "rules: [{name: a, by: ip, like: "+p.Name+"}, {name: b, by: ip, match: {path: /b}, limits: [{like: "+p.Name+"}]}]")
		r := &c.Policy.Rules()[0]
		if len(r.Levels[0].Limits) != len(p.Limits) || r.Status != p.Status || r.MaxWait != p.MaxWait {
			t.Errorf("%s: got %+v", p.Name, r)
		}
		if f := r.Levels[0].InFlight; (f != nil) != (p.InFlight > 0) || f != nil && f.Cap != p.InFlight {
			t.Errorf("%s: got %+v in flight", p.Name, f)
		}
	}
}
