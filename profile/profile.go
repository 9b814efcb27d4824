// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package profile describes the rate limits of well-known platforms and libraries by limits of
// this module: "shopify-rest" is a leaky bucket of 40 that 2 requests leave in a second. Tests
// play the examples of each platform's documentation against every store, and a profile lists
// the differences of its platform.
//
//	p, ok := profile.Get("shopify-rest")
//	lim, err := sluice.New(store, "orders", p.Limits...)
//
// In a configuration the key like names a profile: see package config.
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

// Profile describes the rate limit of a platform. The data that it refers to must not be
// changed.
type Profile struct {
	Name   string // the value of the key like in a configuration; of [a-z0-9-]
	Title  string // the platform's own name
	Source string // the documentation of its behaviour
	// Limits are the limits of one key. All of them must have room. If users of the platform
	// choose the numbers, they are those of an example in its documentation.
	Limits []sluice.Limit

	// Status is the HTTP status of a denial; zero if the platform does not answer HTTP.
	Status int
	// MaxWait is the longest time for which the platform delays a request; zero if it denies.
	// It does not include the delay of a leaky bucket.
	MaxWait time.Duration
	// InFlight is the maximum number of requests of a key in flight; zero means any number.
	InFlight int64
	// Answer is the key answer of a rule, in YAML, for responses in the platform's words.
	// Empty means that it has none, or that they are not known.
	Answer string

	// Differs lists the differences between the platform and these limits. It is empty if
	// every decision equals the platform's.
	Differs []string
}

//go:embed profiles.json
var file []byte

// table returns all profiles, in the order of their names.
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

// All returns all profiles, in the order of their names.
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

// Meant returns the names of profiles that an unknown name may have meant: a similar one, or
// those that begin with it, as shopify-rest begins with shopify.
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
