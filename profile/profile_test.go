// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/profile"
)

// TestTable: what stands in the file can be used and printed.
func TestTable(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9-]+$`)
	vectors, before := make(map[string]bool), ""
	for _, p := range profile.All() {
		if !name.MatchString(p.Name) || p.Name <= before {
			t.Errorf("profile %q behind %q", p.Name, before)
		}
		before = p.Name
		if u, err := url.Parse(p.Source); err != nil || u.Scheme != "https" || u.Host == "" {
			t.Errorf("%s: source %q", p.Name, p.Source)
		}
		if p.Title == "" || len(vector.Of(p.Name)) == 0 {
			t.Errorf("%s has no title or no vector", p.Name)
		}
		if _, err := sluice.Compile(p.Name, p.Limits...); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if p.Status != 0 && (p.Status < 400 || p.Status > 599) {
			t.Errorf("%s: status %d", p.Name, p.Status)
		}
		own := false
		for _, v := range vector.Of(p.Name) {
			if vectors[v.Name] {
				t.Errorf("%s: another vector is named %q, too", p.Name, v.Name)
			}
			vectors[v.Name] = true
			own = own || fmt.Sprint(v.Limits) == fmt.Sprint(p.Limits)
			for i := range v.Steps {
				if i > 0 && v.Steps[i].At < v.Steps[i-1].At {
					t.Errorf("%s: step %d of %s goes back", p.Name, i+1, v.Name)
				}
			}
		}
		if !own {
			t.Errorf("%s has no vector of its own limits", p.Name)
		}
		for _, text := range p.Differs {
			if strings.HasSuffix(text, ".") || text == "" {
				t.Errorf("%s differs: %q", p.Name, text)
			}
		}
	}
}

func TestGet(t *testing.T) {
	for _, want := range profile.All() {
		if got, ok := profile.Get(want.Name); !ok || got.Title != want.Title {
			t.Errorf("%s: got %v, %v", want.Name, got.Title, ok)
		}
	}
	if p, ok := profile.Get("shopify"); ok {
		t.Errorf("got %v", p.Name)
	}
	for name, want := range map[string]string{
		"shopfy-rest": "shopify-rest", "Shopify-REST": "shopify-rest", "shopify": "shopify-graphql shopify-rest",
		"uber": "uber-go uber-go-without-slack", "zool": "zuul", "leaky": "", "": "", " ": "", "-": "",
	} {
		if got := strings.Join(profile.Meant(name), " "); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
