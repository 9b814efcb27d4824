// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
)

// TestUnserved: a rule that a kind of front cannot serve is refused at the listener's place,
// unless the listener names other rules.
func TestUnserved(t *testing.T) {
	const file = `upstream: http://127.0.0.1:9
listen:
  - {address: "127.0.0.1:1", rules: [plain]}
  - {address: "127.0.0.1:2", serve: proxy}
rules:
  - {name: plain, limits: 1/s}
  - {name: after, limits: 1/s, when: {response: 5xx}}
  - {name: busy, in_flight: 3}
  - {name: slow, shape: true, cost: request-bytes, limits: 1MB/s}
  - {name: bytes, cost: request-bytes, limits: 1MB/s}
`
	c, err := Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kind frontKind
		want string // the rules refused at the second listener
	}{
		{frontKinds["proxy"], ""},
		{frontKind{rules: true, responses: true}, "slow bytes"},
		{frontKind{rules: true, bodies: true}, "after busy"},
		{frontKinds["check"], "after busy slow bytes"},
		{frontKinds["resp"], "after busy slow bytes"},
		{frontKinds["tcp"], ""},
	} {
		d := newDecoder(document.New("f"))
		var got []string
		for i := range c.Listen {
			d.unserved(&yaml.Node{Line: c.Listen[i].Line, Column: 5}, c, &c.Listen[i], test.kind)
		}
		for _, f := range d.Since(0) {
			if f.Line != 4 || f.Column != 5 || !strings.Contains(f.Problem, "under rules of this listener") {
				t.Errorf("%+v: got %v", test.kind, f)
			}
			got = append(got, strings.Split(f.Problem, `"`)[1])
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: got %q, want %q", test.kind, got, test.want)
		}
	}
}
