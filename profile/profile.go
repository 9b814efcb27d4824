// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package profile says how well-known platforms and libraries limit, in limits
// of this module: "shopify-rest" is a leaky bucket of 40 that 2 requests leave in
// a second. The vectors that each platform documents are played against every store, and a
// profile says where its platform differs.
//
//	p, ok := profile.Get("shopify-rest")
//	lim, err := sluice.New(store, "orders", p.Limits...)
//
// In a configuration a profile stands behind like:, see package config.
package profile

import (
	"cmp"
	_ "embed" // profiles.json
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/spelling"
)

// Profile is how a platform limits. What it points to must not be changed.
type Profile struct {
	Name   string // as it stands behind like: [a-z0-9-]
	Title  string // what the platform calls itself
	Source string // where its behaviour is documented
	// Limits are those of one key, all of which must have room. Of a platform
	// whose numbers are its users' they are the numbers of its documentation.
	Limits []sluice.Limit

	// Status is what a denial is answered; zero if the platform answers no HTTP.
	Status int
	// MaxWait is how long the platform delays a request; zero if it denies.
	// What a leaky bucket delays by itself is not meant.
	MaxWait time.Duration
	// InFlight is how many requests of a key run at once; zero: any number.
	InFlight int64
	// Answer is what a rule's answer says in a configuration, in YAML, to speak in the
	// platform's words; empty: it has none, or they are not known.
	Answer string

	// Differs says what the platform does that these limits do not; none if
	// every decision is the platform's.
	Differs []string
}

//go:embed profiles.json
var file []byte

// table is every profile, by name.
var table = sync.OnceValue(func() []Profile {
	var all []struct {
		Profile
		Answer   []string
		InFlight int64  `json:"in_flight"`
		MaxWait  string `json:"max_wait"`
	}
	err := json.Unmarshal(file, &all)
	list := make([]Profile, len(all))
	for i, text := range all {
		p := &list[i]
		*p = text.Profile
		for _, line := range text.Answer {
			p.Answer += line + "\n"
		}
		p.InFlight = text.InFlight
		if text.MaxWait != "" && err == nil {
			p.MaxWait, err = time.ParseDuration(text.MaxWait)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("profile: profiles.json: %v", err)) //nolint:forbidigo // it is a part of the program, which every test reads
	}
	return list
})

// All returns every profile, by name.
func All() []Profile { return slices.Clone(table()) }

// Get returns the profile of that name.
func Get(name string) (p Profile, ok bool) {
	all := table()
	i, ok := slices.BinarySearchFunc(all, name, func(p Profile, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return Profile{}, false
	}
	return all[i], true
}

// Meant returns the names that may have been meant by one that no profile has: one
// that is spelled otherwise, or those that go on behind it, as shopify-rest does behind
// shopify.
func Meant(name string) (names []string) {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, p := range table() {
		if p.Name == name || name != "" && strings.HasPrefix(p.Name, name+"-") {
			names = append(names, p.Name)
		}
	}
	if len(names) > 0 {
		return names
	}
	near := spelling.Nearest(name, func(yield func(string) bool) {
		for _, p := range table() {
			if !yield(p.Name) {
				return
			}
		}
	})
	if near == "" {
		return nil
	}
	return []string{near}
}
