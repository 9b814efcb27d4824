// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// ScriptCalls returns how many scripts the server has run since the last time.
func ScriptCalls(t *testing.T, client rueidis.Client) (n int) {
	t.Helper()
	info, err := client.Do(t.Context(), client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		for _, command := range []string{"evalsha", "eval"} {
			var k int
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &k); err == nil {
				n += k
			}
		}
	}
	if err := client.Do(t.Context(), client.B().ConfigResetstat().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	return n
}
