// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestShout: three words a minute for each user.
func TestShout(t *testing.T) {
	front, err := evaluate.New(evaluate.Options{
		Store: memstore.New(memstore.Options{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}),
		Rules: []policy.Rule{policy.NewRule("shout", policy.Header("User"), sluice.PerMinute(3))},
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) //nolint:errcheck // nobody else has it
	go func() {
		if conn, err := listener.Accept(); err == nil {
			shout(front, conn)
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // as above
	answers := bufio.NewScanner(conn)
	for _, c := range []struct{ line, want string }{
		{"ann one", "ONE"},
		{"ann two", "TWO"},
		{"ann three", "THREE"},
		{"ann four", `DENIED the quota of the limit "shout" is used up; retry after 20 s`},
		{"bob one", "ONE"},
		{" one", `DENIED header User is missing`},
	} {
		if _, err := fmt.Fprintln(conn, c.line); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() || answers.Text() != c.want {
			t.Errorf("%q: got %q, want %q", c.line, answers.Text(), c.want)
		}
	}
}

// TestPage: docs/fronts.md shows this program as it is, and it is short.
func TestPage(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/fronts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "package main\n")
	if !strings.Contains(string(page), "package main\n"+code) {
		t.Error("docs/fronts.md shows another program")
	}
	if n := strings.Count(string(program), "\n"); n > 60 {
		t.Errorf("%d lines, want at most 60", n)
	}
}
