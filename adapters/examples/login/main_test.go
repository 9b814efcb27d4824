// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestLogin: three log-ins may fail with each framework.
func TestLogin(t *testing.T) {
	for name, f := range frameworks {
		t.Run(name, func(t *testing.T) {
			mw, err := newLimit()
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error)
			go func() { served <- f.serve(mw, ln) }()
			var got []int
			for range 6 {
				resp, err := http.Post("http://"+ln.Addr().String()+f.path, f.media, strings.NewReader(f.body))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, resp.StatusCode)
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if want := []int{401, 401, 401, 429, 429, 429}; !slices.Equal(got, want) {
				t.Errorf("six log-ins are answered %v, want %v", got, want)
			}
			if err := ln.Close(); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Log(err) // it depends on the framework
			}
		})
	}
}
