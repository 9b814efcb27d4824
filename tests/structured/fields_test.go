// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"iter"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
)

const maxInteger = 999_999_999_999_999 // the largest Integer of RFC 9651

// TestFieldsAreStructuredFields: another implementation of RFC 9651 reads the intended values
// from every field, for every decision, and serialises them to the same text.
func TestFieldsAreStructuredFields(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9._-]{1,64}`)
	duration := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "d"))
	})
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) sluice.Limit {
			l := sluice.Per(rapid.Int64Range(1, sluice.MaxQuota).Draw(t, "quota"), time.Duration(rapid.Int64Range(1, 1e6).Draw(t, "ms"))*time.Millisecond)
			l.Name = name.Draw(t, "name")
			l.Unit = rapid.SampledFrom([]sluice.Unit{sluice.Requests, sluice.Bytes}).Draw(t, "unit")
			return l
		}), 1, 4, func(l sluice.Limit) string { return l.Name }).Draw(t, "limits")
		p, err := sluice.Compile("test", limits...)
		if err != nil {
			t.Fatal(err)
		}
		d := sluice.Decision{
			Allowed: rapid.Bool().Draw(t, "allowed"), Remaining: rapid.Int64Range(0, sluice.MaxQuota).Draw(t, "remaining"),
			ResetAfter: duration.Draw(t, "reset"), Binding: rapid.IntRange(0, p.Len()-1).Draw(t, "binding"),
		}
		if !d.Allowed {
			d.RetryAfter = duration.Draw(t, "retry")
			if d.TooLarge = rapid.Bool().Draw(t, "too large"); d.TooLarge {
				d.RetryAfter = sluice.MaxRetryAfter
			}
		}
		h := http.Header{}
		httplimit.Draft11.Set(h, terms(p), p.Term(d.Binding), d)

		policy := readList(t, h, "RateLimit-Policy")
		if len(policy) != p.Len() {
			t.Fatalf("%d policies of %d limits", len(policy), p.Len())
		}
		for i, item := range policy {
			l := p.Term(i)
			if got := item.Value; got != l.Name {
				t.Fatalf("policy %d: name %v, want %s", i, got, l.Name)
			}
			if got, want := integer(item, "q"), min(l.Quota, maxInteger); got != want {
				t.Fatalf("q=%v, want %d", got, want)
			}
			if w, ok := item.Params.Get("w"); ok && (w != int64(l.Window/time.Second) || l.Window%time.Second != 0) {
				t.Fatalf("w=%v of %v", w, l.Window)
			}
			if qu, ok := item.Params.Get("qu"); ok != (l.Unit == sluice.Bytes) || ok && qu != "content-bytes" {
				t.Fatalf("qu=%v of %v", qu, l.Unit)
			}
		}
		state := readList(t, h, "RateLimit")
		if len(state) != 1 || state[0].Value != p.Term(d.Binding).Name || integer(state[0], "r") != min(d.Remaining, maxInteger) {
			t.Fatalf("got %v of %+v", h, d)
		}
		wait := integer(state[0], "t")
		retry := h["Retry-After"]
		switch {
		case d.Allowed || d.TooLarge:
			if len(retry) != 0 {
				t.Fatalf("Retry-After %v of %+v", retry, d)
			}
		default:
			after, err := strconv.ParseInt(retry[0], 10, 64)
			if err != nil || time.Duration(after)*time.Second < d.RetryAfter || after < wait {
				t.Fatalf("Retry-After %v, t=%d of %+v", retry, wait, d)
			}
		}
	})
}

func readList(t *rapid.T, h http.Header, key string) []httpsfv.Item {
	list, err := httpsfv.UnmarshalList(h[key])
	if err != nil {
		t.Fatalf("%s: %q: %v", key, h[key], err)
	}
	text, err := httpsfv.Marshal(list)
	if err != nil || text != h[key][0] {
		t.Fatalf("%s: got %q, want %q, %v", key, h[key], text, err)
	}
	items := make([]httpsfv.Item, len(list))
	for i, member := range list {
		items[i] = member.(httpsfv.Item)
	}
	return items
}

func integer(item httpsfv.Item, name string) int64 {
	v, ok := item.Params.Get(name)
	if n, isInt := v.(int64); ok && isInt {
		return n
	}
	return -1
}

// terms returns the limits of a plan.
func terms(p *sluice.Plan) iter.Seq[*sluice.Term] {
	return func(yield func(*sluice.Term) bool) {
		for i := range p.Len() {
			if !yield(p.Term(i)) {
				return
			}
		}
	}
}
