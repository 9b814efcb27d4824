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

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/testkit"
)

// ScriptCalls returns how many scripts the server has run since the last time.
func ScriptCalls(t *testing.T, client rueidis.Client) (n int) {
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
func Do(t testing.TB, client rueidis.Client, command ...string) string {
	t.Helper()
	reply, err := ask(t, client, command)
	return textOf(t, reply, err, command)
}

// ask returns the reply to a command.
func ask(t testing.TB, client rueidis.Client, command []string) (rueidis.RedisMessage, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(command...).Build()).ToMessage()
}

// textOf returns a reply, a text or a number, as text.
func textOf(t testing.TB, reply rueidis.RedisMessage, err error, command []string) string {
	t.Helper()
	var text string
	if err == nil && reply.IsInt64() {
		n, _ := reply.AsInt64() // as it is one
		return strconv.FormatInt(n, 10)
	}
	if err == nil {
		text, err = reply.ToString()
	}
	if err != nil {
		t.Fatalf("%.100q: %v", command, err)
	}
	return text
}

// Do is [Do] over a connection that ends with the command, which may be run twice: a
// server that sentinels make a replica breaks its connections once.
func (s *Server) Do(t testing.TB, command ...string) string {
	t.Helper()
	reply, err := s.askOnce(t, command)
	return textOf(t, reply, err, command)
}

// List is [Server.Do] of a command that answers with a list.
func (s *Server) List(t testing.TB, command ...string) []string {
	t.Helper()
	reply, err := s.askOnce(t, command)
	if err == nil {
		var list []string
		if list, err = reply.AsStrSlice(); err == nil {
			return list
		}
	}
	t.Fatalf("%.100q: %v", command, err)
	return nil
}

func (s *Server) askOnce(t testing.TB, command []string) (reply rueidis.RedisMessage, err error) {
	t.Helper()
	for range 3 {
		var client rueidis.Client
		if client, err = rueidis.NewClient(s.Option()); err == nil {
			reply, err = ask(t, client, command)
			client.Close()
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
	}
	return reply, err
}

// Number is [Do] of a command that answers with a number.
func Number(t testing.TB, client rueidis.Client, command ...string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(Do(t, client, command...), 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	return n
}
