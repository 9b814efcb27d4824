// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sample returns a report of so many rules, of which so many in detail, with keys that
// fill sketches.
func sample(id string, rules, detailed, keys int) *Report {
	random := rand.New(rand.NewPCG(1, uint64(len(id))))
	r := &Report{
		ID: id, Hashed: "x", Total: history.Counts{Allowed: 1_000_000, Denied: 5},
		Recent: history.TotalFine.Empty(noon), Day: history.TotalCoarse.Empty(noon),
	}
	fill := func(s *history.Series) *history.Series {
		s.Allowed, s.Denied = make([]uint32, s.Steps), make([]uint32, s.Steps)
		for i := range s.Steps {
			s.Allowed[i], s.Denied[i] = random.Uint32N(1000), random.Uint32N(100)
		}
		return s
	}
	fill(r.Recent)
	fill(r.Day)
	for i := range rules {
		rule := Rule{
			Name: fmt.Sprintf("rule-of-a-service-%d", i), Counts: outcome.Counts{Unlimited: random.Uint64N(1e6), Evaluated: random.Uint64N(1e5)},
			Recent: history.Counts{Allowed: random.Uint64N(1e4), Denied: random.Uint64N(1000)},
		}
		if i < detailed {
			k := sketch.New(sketch.Fine)
			k.Turn(noon)
			for range keys {
				hash := random.Uint64()
				k.Seen(hash)
				k.Denied(hash)
				k.Used(hash, 1000)
			}
			rule.Detail = &Detail{Recent: fill(history.RuleFine.Empty(noon)), Day: fill(history.RuleCoarse.Empty(noon)), Hour: k.Hour(), Days: k.Day()}
			level := outcome.Denied{Total: 1000, Rest: 3}
			for range 20 {
				level.Keys = append(level.Keys, outcome.KeyCount{Key: fmt.Sprintf("198.51.100.%d", random.IntN(256)), Least: 10, Most: 12})
			}
			rule.Detail.Top = []outcome.Denied{level}
		}
		r.Rules = append(r.Rules, rule)
	}
	return r
}

// TestReport: a node reads the same report that another has written. A large report is
// written without details, then without rules, for which there is no room.
func TestReport(t *testing.T) {
	for _, c := range []struct{ rules, detailed, keys, want int }{
		{0, 0, 0, 8 << 10}, {3, 3, 10, 16 << 10}, {1000, 16, 5000, 80 << 10}, {150, 150, 3000, MostReportBytes},
	} {
		t.Run(fmt.Sprint(c.rules, c.detailed), func(t *testing.T) {
			r := sample("n1", c.rules, c.detailed, c.keys)
			data, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d rules, %d in detail: %d bytes", c.rules, c.detailed, len(data))
			if len(data) > c.want {
				t.Errorf("%d bytes, want at most %d", len(data), c.want)
			}
			got, took, err := Decode("n1", data, MostTogether)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Decode("n1", data, took-1); !errors.Is(err, errTogether) {
				t.Errorf("read where there is no room: %v", err)
			}
			a := testkit.JSON(t, r)
			b := testkit.JSON(t, got)
			if !bytes.Equal(a, b) {
				t.Error("what is read is not what was written")
			}
			if _, _, err := Decode("n2", data, MostTogether); err == nil {
				t.Error("it is taken for that of another node")
			}
		})
	}
}

// triedRules returns rules with as many candidates as each may have.
func triedRules(n int) (rules []string) {
	for i := range n {
		rules = append(rules, fmt.Sprintf(`{"n":"r%d","k":[%s{"name":"a"}]}`, i, strings.Repeat(`{"name":"a"},`, mostCandidates-1)))
	}
	return rules
}

// TestHostile: a text that is no report, has another version, or exceeds the bounds is
// refused, in little memory.
func TestHostile(t *testing.T) {
	deflate := func(text string) []byte {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestCompression)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	long := strings.Repeat("x", 300)
	for name, data := range map[string][]byte{
		"nothing":           nil,
		"no flate":          []byte("{}"),
		"bomb":              deflate(strings.Repeat(" ", 8<<20)),
		"large":             bytes.Repeat([]byte("x"), MostReportBytes+1),
		"no JSON":           deflate("{"),
		"version":           deflate(`{"v":2,"id":"n1"}`),
		"no version":        deflate(`{"id":"n1"}`),
		"another node":      deflate(`{"v":1,"id":"n2"}`),
		"type":              deflate(`{"v":1,"id":"n1","rules":7}`),
		"negative":          deflate(`{"v":1,"id":"n1","total":{"allowed":-1}}`),
		"count":             deflate(`{"v":1,"id":"n1","total":{"allowed":9007199254740993}}`),
		"count of a rule":   deflate(`{"v":1,"id":"n1","rules":[{"n":"a","c":{"unlimited":9007199254740993}}]}`),
		"name":              deflate(`{"v":1,"id":"n1","rules":[{"n":"` + long + `"}]}`),
		"no name":           deflate(`{"v":1,"id":"n1","rules":[{}]}`),
		"one rule twice":    deflate(`{"v":1,"id":"n1","rules":[{"n":"a"},{"n":"a"}]}`),
		"steps":             deflate(`{"v":1,"id":"n1","recent":{"step":1,"from":"2026-01-01T00:00:00Z","steps":1000000000}}`),
		"no step":           deflate(`{"v":1,"id":"n1","recent":{"step":0,"from":"2026-01-01T00:00:00Z","steps":1}}`),
		"list of steps":     deflate(`{"v":1,"id":"n1","recent":{"step":1,"from":"2026-01-01T00:00:00Z","steps":1,"allowed":[1,2]}}`),
		"between steps":     deflate(`{"v":1,"id":"n1","recent":{"step":60,"from":"2026-01-01T00:00:01Z","steps":1}}`),
		"key":               deflate(`{"v":1,"id":"n1","rules":[{"n":"a","d":{"top":[{"k":[{"k":"` + long + `"}]}]}}]}`),
		"least above most":  deflate(`{"v":1,"id":"n1","rules":[{"n":"a","d":{"top":[{"k":[{"k":"x","l":2,"m":1}]}]}}]}`),
		"keys of precision": deflate(`{"v":1,"id":"n1","rules":[{"n":"a","d":{"hour":{"half":1800,"precision":60}}}]}`),
		"candidates":        deflate(`{"v":1,"id":"n1","rules":[` + strings.Join(triedRules(70), ",") + `]}`),
		"many candidates":   deflate(`{"v":1,"id":"n1","rules":[{"n":"a","k":[` + strings.Repeat(`{"name":"a"},`, 100) + `{"name":"a"}]}]}`),
	} {
		if r, _, err := Decode("n1", data, MostTogether); err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	const later = "it has version 2, and this node reads version 1: update this node"
	if _, _, err := Decode("n1", deflate(`{"v":2,"id":"n1","rules":7}`), MostTogether); err == nil || !strings.Contains(err.Error(), later) {
		t.Errorf("a later version: got %v", err)
	}
	for name, data := range map[string]string{
		"version": `{"v":2,"id":"n1"}`, "id": `{"v":1,"id":"n2"}`, "name": `{"v":1,"id":"n1","name":"` + long + `"}`, "clock": `{"v":1,"id":"n1","clock":9223372036854775807}`,
		"no JSON": `{`, "large": `{"v":1,"id":"n1","x":"` + strings.Repeat("x", MostNodeBytes) + `"}`,
	} {
		if n, err := DecodeNode("n1", []byte(data)); err == nil {
			t.Errorf("node, %s: got %+v", name, n)
		}
	}
	if _, err := DecodeNode("n1", []byte(`{"v":1,"id":"n1","of_later":[1]}`)); err != nil {
		t.Errorf("a field that is not known: %v", err)
	}
}

// FuzzDecode: every report that can be read can be summed.
func FuzzDecode(f *testing.F) {
	plain, err := json.Marshal(sample("n1", 2, 1, 600))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Replace(plain, []byte(`"v":0`), []byte(`"v":1`), 1))
	f.Fuzz(func(t *testing.T, plain []byte) {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestSpeed)
		if err == nil {
			_, err = w.Write(plain)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := Decode("n1", b.Bytes(), MostTogether)
		if err != nil {
			return
		}
		s := NewSum(noon, "x")
		s.Add(sample("n2", 2, 2, 10))
		s.Add(r)
		for _, rule := range s.Rules {
			rule.Top(5)
		}
	})
}

// TestSum: counts, candidates, series and keys add up, and the most that a key may have had
// at nodes that have not listed it is reported.
func TestSum(t *testing.T) {
	series := func(span history.Span, end time.Time, last uint32) *history.Series {
		s := span.Empty(end)
		s.Allowed = make([]uint32, s.Steps)
		s.Allowed[s.Steps-1] = last
		return s
	}
	node := func(id, secret string, n uint64, clock time.Time, keys ...outcome.KeyCount) *Report {
		k := sketch.New(sketch.Coarse)
		k.Turn(noon)
		for i := range n {
			k.Seen(i * 0x9E3779B97F4A7C15)
		}
		return &Report{
			ID: id, Hashed: secret, Total: history.Counts{Allowed: n}, Recent: series(history.TotalFine, clock, 2), Day: series(history.TotalCoarse, clock, 3), More: int(n),
			Rules: []Rule{{
				Name: "api", Counts: outcome.Counts{Counts: history.Counts{Allowed: n}, Evaluated: 2 * n, Unlimited: 1}, Recent: history.Counts{Denied: n},
				Candidates: []outcome.CandidateReport{{Level: "l", Name: "c", Evaluated: n, WouldDeny: 1, Rescued: 1}},
				Detail: &Detail{
					Recent: series(history.RuleFine, clock, 1), Day: series(history.RuleCoarse, clock, 1), Hour: k.Hour(), Days: k.Day(),
					Top: []outcome.Denied{{Total: 10 * n, Recent: n, Rest: n, Keys: keys}},
				},
			}},
		}
	}
	s := NewSum(noon, "x")
	s.Add(node("a", "x", 3, noon, outcome.KeyCount{Key: "ada", Least: 7, Most: 9, Recent: 1}, outcome.KeyCount{Key: "bob", Least: 5, Most: 5}))
	s.Add(node("b", "x", 4, noon.Add(-5*time.Second), outcome.KeyCount{Key: "ada", Least: 10, Most: 10, Recent: 2}))
	s.Add(node("c", "y", 5, noon.Add(time.Hour))) // its clock and its secret are others
	if s.Nodes != 3 || s.Total.Allowed != 12 || s.More != 5 || s.Recent.Sum().Allowed != 4 || s.Day.Sum().Allowed != 6 {
		t.Errorf("got %+v", s)
	}
	if n := s.Recent.Steps; s.Recent.Allowed[n-1] != 2 || s.Recent.Allowed[n-6] != 2 {
		t.Errorf("series %v", s.Recent.Allowed[n-10:])
	}
	r := s.Rule("api")
	if r.Counts != (outcome.Counts{Counts: history.Counts{Allowed: 12}, Evaluated: 24, Unlimited: 3}) || r.Recent.Denied != 12 || len(r.Nodes) != 3 || r.Nodes[1].ID != "b" || r.Detailed != 3 || r.Keyed != 2 {
		t.Errorf("got %+v", r)
	}
	if want := []outcome.CandidateReport{{Level: "l", Name: "c", Evaluated: 12, WouldDeny: 3, Rescued: 3}}; !reflect.DeepEqual(r.Candidates, want) {
		t.Errorf("candidates %+v", r.Candidates)
	}
	if got := r.Detail.Hour.Count(); got.Seen != 4 {
		t.Errorf("keys %+v; want those of two nodes, each once", got)
	}
	want := []outcome.Denied{{
		Rule: "api", Total: 120, Recent: 12, Rest: 12,
		Keys: []outcome.KeyCount{{Key: "ada", Least: 17, Most: 19 + 5, Recent: 3}, {Key: "bob", Least: 5, Most: 5 + 4 + 5}},
	}}
	if got := r.Top(5); !reflect.DeepEqual(got, want) {
		t.Errorf("top %+v, want %+v", got, want)
	}
	if got := r.Top(1); len(got[0].Keys) != 1 {
		t.Errorf("top 1: %+v", got)
	}
}
