// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// ScriptCalls returns how many scripts the server has run since the last call.
func ScriptCalls(t *testing.T, client *Client) (n int) {
	t.Helper()
	for line := range strings.Lines(Do(t, client, "INFO", "commandstats")) {
		for _, command := range []string{"evalsha", "eval"} {
			var k int
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &k); err == nil {
				n += k
			}
		}
	}
	Do(t, client, "CONFIG", "RESETSTAT")
	return n
}

// Do runs a command and returns its reply, a text or a number, as text.
func Do(t testing.TB, client *Client, command ...string) string {
	t.Helper()
	return text(t, ask(t, client, command), command)
}

// ask returns the reply to a command.
func ask(t testing.TB, client *Client, command []string) Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
	defer cancel()
	return client.Do(ctx, command...)
}

// text returns a reply that must be a text or a number.
func text(t testing.TB, reply Reply, command []string) string {
	t.Helper()
	if reply.Err != nil || reply.List != nil {
		t.Fatalf("%.100q: %v, and %d elements", command, reply.Err, len(reply.List))
	}
	return reply.Text
}

// texts returns a reply that must be a list of texts.
func texts(t testing.TB, reply Reply, command ...string) []string {
	t.Helper()
	if reply.Err != nil {
		t.Fatalf("%.100q: %v", command, reply.Err)
	}
	var list []string
	for _, e := range reply.List {
		list = append(list, text(t, e, command))
	}
	return list
}

// Do is [Do] over a connection of its own. It may run the command twice: a server that
// sentinels make a replica breaks its connections once.
func (s *Server) Do(t testing.TB, command ...string) string {
	t.Helper()
	return text(t, s.askOnce(t, command), command)
}

// List is [Server.Do] of a command that answers with a list.
func (s *Server) List(t testing.TB, command ...string) []string {
	t.Helper()
	return texts(t, s.askOnce(t, command), command...)
}

func (s *Server) askOnce(t testing.TB, command []string) (reply Reply) {
	t.Helper()
	for range 3 {
		client := newClient(false, s)
		reply = ask(t, client, command)
		client.Close()
		if !errors.Is(reply.Err, io.EOF) && !errors.Is(reply.Err, syscall.ECONNRESET) {
			break
		}
	}
	return reply
}

// Now returns the time of a server's clock.
func Now(t testing.TB, client *Client) time.Time {
	t.Helper()
	return time.UnixMicro(Number(t, client, "EVAL", "local t = redis.call('TIME'); return t[1] * 1000000 + t[2]", "0"))
}

// Number is [Do] of a command that answers with a number.
func Number(t testing.TB, client *Client, command ...string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(Do(t, client, command...), 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	return n
}
