// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// TestTemporary: replies of a server that is not ready are temporary, also when wrapped.
func TestTemporary(t *testing.T) {
	client := connect(t, "redis://"+redistest.Start(t, redistest.Redis(t)).Addr, nil)
	for _, c := range []struct {
		reply string
		want  bool
	}{
		{"LOADING Redis is loading the dataset in memory", true},
		{"CLUSTERDOWN The cluster is down", true},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", true},
		{"TRYAGAIN Multiple keys request during rehashing of slot", true},
		{"ERR max number of clients reached", true},
		{"READONLY You can't write against a read only replica. script: 1, on @user_script:1.", true},
		{"NOPERM this user has no permissions to run the 'info' command", false},
		{"WRONGPASS invalid username-password pair or user is disabled.", false},
	} {
		err := client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(c.reply).Build()).Error()
		if got := rueidisstore.Temporary(err); got != c.want {
			t.Errorf("%v: got %t, want %t", err, got, c.want)
		}
		if got := rueidisstore.Temporary(fmt.Errorf("redisstore: new: %w", err)); got != c.want {
			t.Errorf("%v, reported on: got %t, want %t", err, got, c.want)
		}
		if !rueidisstore.Answered(fmt.Errorf("redisstore: take: %w", err)) {
			t.Errorf("%v: is no answer", err)
		}
	}
	if rueidisstore.Answered(io.EOF) {
		t.Error("the end of a connection is an answer")
	}
}
