// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestFirstOfSeveral: a known user has a budget of its own, also under the name of an address;
// others have that of their address; a bad token has neither.
func TestFirstOfSeveral(t *testing.T) {
	t.Parallel()
	s := startWithTokens(t, "", "  - {name: user, by: {first: [claim.sub, ip]}, limits: 2/day fixed-window}\n")
	as := func(sub string) []string {
		return []string{"Authorization", "Bearer " + tokenOf(tokenSecret, `{"sub":"`+sub+`"}`)}
	}
	for _, c := range []struct {
		name   string
		header []string
		want   []int
	}{
		{"a user", as("ada"), []int{200, 200, 429}},
		{"nobody", nil, []int{200}},
		{"a user called like the address", as("127.0.0.1"), []int{200, 200, 429}},
		{"a user called like the address as a key", as("2:127.0.0.1"), []int{200, 200, 429}},
		{"an expired token", []string{"Authorization", "Bearer " + tokenOf(tokenSecret, `{"sub":"ada","exp":1}`)}, []int{401, 401, 401}},
		{"a forged token", []string{"Authorization", "Bearer " + tokenOf(strings.ToUpper(tokenSecret), `{"sub":"bob"}`)}, []int{401}},
		{"a claim that is no key", []string{"Authorization", "Bearer " + tokenOf(tokenSecret, `{"sub":["bob"]}`)}, []int{400}},
		{"a token without the claim", []string{"Authorization", "Bearer " + tokenOf(tokenSecret, `{}`)}, []int{200}},
		{"nobody again", nil, []int{429}},
	} {
		s.WantAll(t, c.want, "/", c.header...)
	}

	show := func(query, part, value string) {
		t.Helper()
		states := servetest.Document[admin.KeyStates](t, s, "/v1/key?"+query)
		if len(states.Keys) != 1 {
			t.Fatalf("%s: got %+v", query, states)
		}
		if k := states.Keys[0]; k.Parts[part] != value || k.Limits[0].Remaining != 0 {
			t.Errorf("%s: got %+v, want %s=%s with nothing left", query, k, part, value)
		}
	}
	show("claim.sub=ada", "claim.sub", "ada")
	show("ip=127.0.0.1", "ip", "127.0.0.1")

	s.Override(t, "user", "claim.sub", "ada", "5/day")
	s.Override(t, "user", "ip", "127.0.0.1", "3/day")
	for _, c := range []struct {
		header []string
		want   []int
	}{{as("ada"), []int{200, 200, 200, 429}}, {nil, []int{200, 429}}, {as("127.0.0.1"), []int{429}}} {
		s.WantAll(t, c.want, "/", c.header...)
	}
	if top := servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/top").Body; !strings.Contains(top, `"claim.sub": "ada"`) || !strings.Contains(top, `"ip": "127.0.0.1"`) {
		t.Errorf("the keys denied most are %s", top)
	}
	// What a client has of its own is under the key that its request has.
	testkit.Contains(t, s.Get(t, "/.well-known/ratelimit", as("ada")...).Body, `"quota":5`)
	testkit.Contains(t, s.Get(t, "/.well-known/ratelimit").Body, `"quota":3`)
}
