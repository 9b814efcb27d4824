// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestLateCallersHaveTheirTime: a call hangs, and a caller that joins its queue late does not
// time out with the earlier ones.
func TestLateCallersHaveTheirTime(t *testing.T) {
	timeout := 500 * time.Millisecond
	for ; timeout < testkit.Ceiling; timeout *= 4 { // a busy machine takes longer
		server := redistest.Shared(t, redistest.Redis(t))
		s := open(t, server, redisstore.Options{Timeout: timeout})
		l := testkit.Limiter(t, s, "scope", "1000/h")
		release := redistest.HoldUp(t, server)
		take := func() <-chan error {
			result := make(chan error, 1)
			go func() {
				_, err := l.Take(context.Background(), "k", 1)
				result <- err
			}()
			return result
		}
		first := take()
		redistest.AwaitBlocked(t, server, "1")
		second := take()
		<-time.After(timeout / 2)
		third := take()
		for _, result := range []<-chan error{first, second} {
			if err := <-result; err == nil {
				t.Error("the server hangs, but there was an answer")
			}
		}
		release()
		if err := <-third; err == nil {
			return
		}
	}
	t.Errorf("who came later was sent away, with a timeout of up to %v", timeout/4)
}
