// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"testing"

	"github.com/sluicegate/sluice/config"
)

// TestLeastBodyRate: bodies have a least rate unless the file says another, or off.
func TestLeastBodyRate(t *testing.T) {
	for _, c := range []struct {
		line string
		want int64
	}{{"", 240}, {"least_body_rate: 1000", 1000}, {"least_body_rate: off", 0}} {
		conf, err := config.Parse("a.yaml", []byte(c.line+"\nrules: [{name: a, limits: 1/s}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		s := &runtime{}
		s.current.Store(&generation{config: conf})
		if got := s.leastBodyRate(); got != c.want {
			t.Errorf("%q: got %d, want %d", c.line, got, c.want)
		}
	}
}
