// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestRestoreReadsVersionOne restores a snapshot that the release before wrote
// (commit 34ef9f3): under each limit its key has spent 7 units a second before.
func TestRestoreReadsVersionOne(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "version1.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	clock := testkit.ClockAt(time.Unix(1_700_000_000, 0))
	clock.Advance(time.Second)
	s := memstore.New(memstore.Options{Now: clock.Now})
	if err := s.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	upTo := func(scope, text, key string) int64 {
		req := testkit.Request(testkit.Plan(t, scope, text), key, 1000)
		req.Op = sluice.OpTakeUpTo
		return testkit.Take(t, s, req).Spent
	}
	for _, c := range []struct {
		text string
		want int64
	}{
		{"n: 10/min", 3},
		{"n: 65537/min burst 10", 10},
		{"n: 10/min burst 10 interval-refill", 3},
		{"n: 10/min fixed-window", 3},
		{"n: 10/min sliding-counter", 3},
		{"n: 10/min sliding-counter sub-windows 6", 3},
		{"n: 10/min sliding-log", 3},
		{"n: 10/min sliding-histogram precision 3", 3},
	} {
		if got := upTo("scope "+c.text, c.text, "k"); got != c.want {
			t.Errorf("%s: %d left, want %d", c.text, got, c.want)
		}
		if got := upTo("scope "+c.text, c.text, "k"); got != 0 {
			t.Errorf("%s: %d left behind that, want none", c.text, got)
		}
	}
	// A limit that has changed before, or is another now.
	for _, scope := range []string{"changed", "changed bucket"} {
		words := map[string]string{"changed": " sliding-log", "changed bucket": ""}[scope]
		for key, want := range map[string]int64{"old": 23, "new": 23} {
			if got := upTo(scope, "n: 30/min"+words, key); got != want {
				t.Errorf("%s, %s: %d left of 30, want %d", scope, key, got, want)
			}
		}
	}
	// What is written again has the version of today.
	var out bytes.Buffer
	if err := s.Snapshot(&out); err != nil {
		t.Fatal(err)
	}
	if v := out.Bytes()[7]; v != 3 {
		t.Errorf("version %d, want 3", v)
	}
	if err := memstore.New(memstore.Options{Now: clock.Now}).Restore(&out); err != nil {
		t.Error(err)
	}
}

// TestRestoreReadsVersionTwo restores a snapshot that the release before wrote (commit
// 9e76b65): for as long as it counts, each limit says what it said there.
func TestRestoreReadsVersionTwo(t *testing.T) {
	t.Parallel()
	saysWhatItSaid(t, "version2", 11)
}

// TestRestoreReadsWindowsOfSlots restores a snapshot of version 3 that was written when no
// window was a word (commit 43218f1).
func TestRestoreReadsWindowsOfSlots(t *testing.T) {
	t.Parallel()
	saysWhatItSaid(t, "version3", 9)
}

func saysWhatItSaid(t *testing.T, name string, limits int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(filepath.Join("testdata", name+".txt")) // when, and of each limit what was left every two minutes, and for how long
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	start, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil || len(lines) != 1+2*limits {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i := 1; i < len(lines); i += 2 {
		clock := testkit.ClockAt(time.UnixMicro(start))
		s := memstore.New(memstore.Options{Now: clock.Now})
		if err := s.Restore(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		req := testkit.Request(testkit.Plan(t, "scope "+lines[i], lines[i]), "k", 1)
		req.Op = sluice.OpPeek
		for n, text := range strings.Fields(lines[i+1]) {
			d := testkit.Take(t, s, req)
			if got := fmt.Sprintf("%d:%d", d.Remaining, d.ResetAfter.Microseconds()); got != text {
				t.Errorf("%s, after %d minutes: %s, want %s", lines[i], 2*n, got, text)
			}
			clock.Advance(2 * time.Minute)
		}
		clock.Set(time.UnixMicro(start))
		left := testkit.Take(t, s, req).Remaining
		for _, want := range []int64{left, 0} { // as it is, and as it is kept then
			if d := testkit.Take(t, s, sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Plan: req.Plan, Key: "k", Cost: sluice.MaxQuota}}); d.Spent != want {
				t.Errorf("%s: %d left, want %d", lines[i], d.Spent, want)
			}
		}
	}
}
