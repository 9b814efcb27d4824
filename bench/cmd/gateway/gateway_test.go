// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestParseFlags(t *testing.T) {
	cases := []struct {
		args string
		want string // part of the error; empty for none
	}{
		{"", ""},
		{"-rounds 1 -groups proxy,soak -length 1s -soak 1s -rate 1", ""},
		{"-rounds 0", "-rounds 0 must be 1 to 100"},
		{"-length 2m", "-length 2m0s must be 1s to 1m"},
		{"-rate 0", "-rate 0 must be 1 to 100000"},
		{"-soak 1ms", "-soak 1ms must be 1s to 24h"},
		{"-groups logs,lines", ""},
		{"-groups proxy,take", `no group "take"; there are proxy,`},
		{"proxy", `argument "proxy" is not understood`},
	}
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			_, err := parseFlags(strings.Fields(c.args), io.Discard)
			if c.want == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	sorted := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 6, 0.99: 10, 1: 10} {
		if got := quantile(sorted, share); got != want {
			t.Errorf("%v: got %v, want %v", share, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: got %v, want 0", got)
	}
}

// TestAwait: a moment is reported for the text that was waited for, once.
func TestAwait(t *testing.T) {
	var b lockedBuffer
	write := func(text string) {
		if _, err := b.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("ready\n")
	came := b.await("ready")
	if len(came) != 0 {
		t.Error("what was written before counts")
	}
	write("not yet\n")
	write("now ready\n")
	write("ready again\n")
	if len(came) != 1 || b.String() != "ready\nnot yet\nnow ready\nready again\n" {
		t.Errorf("got %d moments after %q", len(came), b.String())
	}
}
