// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overrides

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// TestOverridesFileTooLarge: a node can read its file at the next start, however many
// overrides other nodes make. At the bound it takes only removals. The error for a file
// that is too large says so.
func TestOverridesFileTooLarge(t *testing.T) {
	testkit.Long(t) // 60 MiB
	file := filepath.Join(t.TempDir(), "overrides.json")
	l, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	reason := strings.Repeat("x", mostText)
	var all []fleet.Record
	for i := range mostOverrides - 1 {
		o := of("api", fmt.Sprint(strings.Repeat("k", 3000), i), "1/s", time.Time{})
		o.Reason = reason
		body, err := o.body()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fleet.Record{Name: o.ID(), Version: fleet.Version(i + 1), Body: body})
	}
	l.learn(all)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := info.Size(); n < mostKept || n > mostBytes {
		t.Errorf("the file has %d bytes", n)
	}
	again, err := Open(file)
	if err != nil {
		t.Fatalf("the next start: %v", err)
	}
	o := of("api", "one more", "1/s", time.Time{})
	if _, err := again.Add(&o, time.Now()); !errors.Is(err, errTooMuch) {
		t.Errorf("one more: %v", err)
	}
	if _, _, err := again.Set(t.Context(), &o, "", nil); !errors.Is(err, errTooMuch) {
		t.Errorf("one more for all: %v", err)
	}
	if err := os.Truncate(file, mostBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// TestTooManyOverrides: at the bound of number or size, an override may only replace
// another.
func TestTooManyOverrides(t *testing.T) {
	l, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostOverrides - 1 {
		l.own[fmt.Sprint(i)] = &kept{Stored: Stored{Rule: "api", Added: time.Now()}}
	}
	add := func(key string, want, forAll error) {
		t.Helper()
		o := of("api", key, "1/s", time.Time{})
		if _, err := l.Add(&o, time.Now()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", key, err, want)
		}
		if forAll == nil {
			return
		}
		if _, _, err := l.Set(t.Context(), &o, "", nil); !errors.Is(err, forAll) {
			t.Errorf("%s for all: %v, want %v", key, err, forAll)
		}
	}
	add("last", nil, errTooMany)
	add("one more", errTooMany, errTooMany)
	add("last", nil, errTooMany)
	delete(l.own, "1")
	l.own["0"].line = make([]byte, mostKept)
	add("one more", errTooMuch, errTooMuch)
	add("last", errTooMuch, errTooMuch)
	testkit.Contains(t, errTooMany.Error(), "there are 10000 already")
}
