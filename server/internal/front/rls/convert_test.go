// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/front/rls/convert"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// drawDescriptors writes random descriptors, whose keys ascend.
func drawDescriptors(r *rand.Rand, b *strings.Builder, keys []string, indent string) {
	taken := make(map[string]bool)
	for range 1 + r.IntN(5) {
		i := r.IntN(len(keys))
		value := []string{"", "", "x", "y", "xy", "x*", "*y", "*", "x*y"}[r.IntN(9)]
		if taken[keys[i]+value] {
			continue
		}
		taken[keys[i]+value] = true
		fmt.Fprintf(b, "%s- key: %s\n", indent, keys[i])
		if value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", indent, value)
		}
		if strings.Contains(value, "*") && r.IntN(2) == 0 {
			fmt.Fprintf(b, "%s  share_threshold: true\n", indent)
		}
		switch r.IntN(8) {
		case 0:
			fmt.Fprintf(b, "%s  rate_limit: {unlimited: true}\n", indent)
		case 1:
			fmt.Fprintf(b, "%s  shadow_mode: true\n", indent)
			fallthrough
		case 2, 3, 4, 5:
			unit := []string{"second", "minute", "hour", "day", "week", "month", "year"}[r.IntN(7)]
			fmt.Fprintf(b, "%s  rate_limit: {unit: %s, requests_per_unit: %d}\n", indent, unit, 1+r.IntN(6))
		}
		if below := keys[i+1:]; len(below) > 0 && r.IntN(3) > 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			drawDescriptors(r, b, below, indent+"    ")
		}
	}
}

// drawRequest returns a request of random descriptors, whose keys ascend, with random hits.
func drawRequest(r *rand.Rand, keys []string) *pb.RateLimitRequest {
	var descriptors []string
	for range 1 + r.IntN(3) {
		var entries []string
		for _, key := range append(keys, "other") {
			if r.IntN(2) == 0 && (key != "other" || r.IntN(4) == 0) {
				entries = append(entries, key+"="+[]string{"x", "y", "xy", "z", "xzy"}[r.IntN(5)])
			}
		}
		if entries == nil {
			entries = []string{keys[0] + "=x"}
		}
		descriptors = append(descriptors, strings.Join(entries, ","))
	}
	q := request(descriptors...)
	q.HitsAddend = uint32(r.IntN(8))
	return q
}

// TestConvert: the rules that stand for random files decide random requests as the files do.
func TestConvert(t *testing.T) {
	t.Parallel()
	files := 200
	if testing.Short() {
		files = 20
	}
	denied, converted := 0, 0
	for seed := range files {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n, ok := compareConverted(t, rand.New(rand.NewPCG(1, uint64(seed))))
			if denied += n; ok {
				converted++
			}
		})
	}
	if converted < files*3/4 || denied < converted*4 {
		t.Errorf("%d of %d files, %d requests denied: too few", converted, files, denied)
	}
}

// compareConverted compares the decisions of a random file with those of the rules that stand for
// it, and returns how many requests were denied. It reports false for a file without limits.
func compareConverted(t *testing.T, r *rand.Rand) (denied int, ok bool) {
	t.Helper()
	keys := []string{"k", "l", "m"}
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	drawDescriptors(r, &b, keys, "  ")
	name := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	text, notes, err := convert.Convert([]ratelimit.File{{Name: name, Data: []byte(b.String())}}, func([]byte) []string { return nil })
	for _, note := range notes {
		if !strings.Contains(note.Problem, "it never applies") {
			t.Fatalf("%v\n%s", note, &b)
		}
	}
	if errors.Is(err, convert.ErrNoLimits) {
		return 0, false
	} else if err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	c, err := config.Parse("f", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	byFiles := start(t, func(l *config.Listener) { l.RLS.Files = []string{name} })
	byRules := startBy(t, c.PolicyOf(&c.Listen[0]), func(l *config.Listener) { l.RLS.Files = nil })
	for range 40 {
		q := drawRequest(r, keys)
		want, got := byFiles.codes(q), byRules.codes(q)
		if want != got {
			t.Fatalf("%v: %s, and by rules %s\n%s\n%s", q, want, got, &b, text)
		}
		if strings.HasPrefix(want, "OVER") {
			denied++
		}
		var seconds int64
		switch r.IntN(20) {
		case 0: // into another window of any unit
			seconds = r.Int64N(int64(400 * 24 * time.Hour / time.Second))
		case 1, 2, 3, 4, 5, 6:
			seconds = r.Int64N(100)
		}
		byFiles.now.Add(seconds)
		byRules.now.Add(seconds)
	}
	return denied, true
}
