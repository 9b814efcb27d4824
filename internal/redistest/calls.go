// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
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
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	reply, err := client.Do(ctx, client.B().Arbitrary(command...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%.100q: %v", command, err)
	}
	if reply.IsInt64() {
		n, _ := reply.AsInt64() // as it is one
		return strconv.FormatInt(n, 10)
	}
	text, err := reply.ToString()
	if err != nil {
		t.Fatalf("%.100q: %v", command, err)
	}
	return text
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
