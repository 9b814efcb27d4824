// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/front/rls/convert"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

const file = `domain: Shop/eu
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 100, name: User}
  - {key: path, value: /login, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: path, value: /health, rate_limit: {unlimited: true}}
  - key: path
    value: /api/*
    share_threshold: true
    detailed_metric: true
    rate_limit: {unit: month, requests_per_unit: 500}
  - key: path
    shadow_mode: true
    quota_mode: true
    metadata: {a: b}
    rate_limit: {unit: second, requests_per_unit: 500, replaces: [{name: User}]}
    descriptors:
      - {key: user, value: root, rate_limit: {unit: day, requests_per_unit: 0}}
      - {key: user, rate_limit: {unit: week, requests_per_unit: 9, unlimited: false}}
      - {key: path, rate_limit: {unit: week, requests_per_unit: 9}}
  - key: user
    value: "no"
    quota_mode: false
    unit: day
    descriptors:
      - {key: path, value: /x*, rate_limit: {unit: year, requests_per_unit: 7, name: User}}
  - {key: any, value: "*"}
  - {key: any, value: "a*", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: own, rate_limit: {limits: ["per-own: 9/15min sliding-log", 20/day burst 5]}}
  - {key: own, value: a, descriptors: [{key: owner, rate_limit: {slots: 2, ttl: 1m}}]}
  - {key: "h*", rate_limit: {unit: day, requests_per_unit: 1}}
`

const rules = `listen: {address: 127.0.0.1:8081, serve: rls}
rules:
  - name: user   # line 3
    match:
      host: shop-eu
      descriptor: {user: "*"}
      except_descriptor: {user: "no"}
    by: descriptor.user
    limits: 100/min fixed-window count-denied
  - name: shop-eu.path_-login   # line 5
    match:
      host: shop-eu
      descriptor: {path: /login}
    limits: 5/hour fixed-window count-denied
  - name: shop-eu.path_-api   # line 7
    match:
      host: shop-eu
      descriptor: {path: "/api/*"}
    limits: 500/30day fixed-window count-denied   # as before; of the calendar: 500/month calendar UTC
  - name: shop-eu.path   # line 12
    match:
      host: shop-eu
      descriptor: {path: "*"}
      except_descriptor: {path: [/health, /login, "/api/*"]}
    by: descriptor.path
    limits: 500/s fixed-window count-denied
    mode: shadow
  - name: shop-eu.path.user   # line 19
    match:
      host: shop-eu
      descriptor: {path: "*", user: "*"}
      except_descriptor: {path: [/health, /login, "/api/*"], user: root}
    by: [descriptor.path, descriptor.user]
    limits: 9/week fixed-window count-denied
  - name: user-2   # line 26
    match:
      host: shop-eu
      descriptor: {user: "no", path: "/x*"}
    by: descriptor.path
    limits: 7/365day fixed-window count-denied   # as before; of the calendar: 7/year calendar UTC
  - name: shop-eu.own   # line 29
    match:
      host: shop-eu
      descriptor: {own: "*"}
      except_descriptor: {own: a}
    by: descriptor.own
    limits: ["per-own: 9/15min sliding-log", "20/day burst 5"]
`

const notes = `f:7: detailed_metric and value_to_metric are not kept: metrics have the names of rules
f:12: quota_mode is not kept: the rule denies the request by itself
f:12: replaces is not kept: the limit that is replaced applies, too
f:12: metadata is not kept: answers do not have it
f:18: not kept: a limit of 0 denies all, and no rule does; leave it in a file, under rls: {files: FILE}
f:20: not kept: rules do not match two entries of the key "path"; leave the limit in a file, under rls: {files: FILE}
f:24:5: unit has no effect in a descriptor; it belongs in rate_limit
f:26: the limit on line 19 has the same keys in another order: rules match any order, and both may apply
f:28: left out: it never applies, as the file has the value * of "any" before it
f:30: not kept: rules have no slots of owners here; leave them in a file, under rls: {files: FILE}
f:31: not kept: a star in the key "h*"; name the keys`

// problems returns the faults of a file of sluice's.
func problems(yaml []byte) []string {
	if _, err := config.Parse("f", yaml); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// lines returns notes as text. Most have no column.
func lines(notes config.Faults) string { return strings.ReplaceAll(notes.Error(), ":0: ", ": ") }

func TestConvert(t *testing.T) {
	yaml, got, err := convert.Convert([]ratelimit.File{{Name: "f", Data: []byte(file)}}, problems)
	if err != nil {
		t.Fatal(err)
	}
	if _, text, _ := strings.Cut(string(yaml), "denies them\n"); text != rules {
		t.Errorf("%s", yaml)
	}
	if text := lines(got); text != notes {
		t.Errorf("%s", text)
	}
}

// TestConvertSeveral: files of several domains become one file, with rules for the host that
// stands for each domain.
func TestConvertSeveral(t *testing.T) {
	limit := "\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]"
	yaml, got, err := convert.Convert([]ratelimit.File{
		{Name: "b", Data: []byte("domain: a/b" + limit)}, {Name: "a", Data: []byte("domain: A-B" + limit)}, {Name: "c", Data: []byte("domain: ..." + limit)},
	}, problems)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Contains(t, string(yaml), "name: a-b.k ", "name: a-b.k-2 ", "host: a-b\n")
	testkit.Contains(t, lines(got), `b:2: the domain "a/b" is the host a-b, as "A-B" is`, `c:2: the domain "..." is no host: the rule applies to all domains`)
}

// TestConvertPatterns: a pattern excepts those before it that a value may have as well.
func TestConvertPatterns(t *testing.T) {
	file := "domain: d\ndescriptors:\n"
	for _, value := range []string{"/a/*", "/b/*", "*.png", "/a/b*", "/b/*.jpg"} {
		file += fmt.Sprintf("- {key: k, value: %q, rate_limit: {unit: day, requests_per_unit: 1}}\n", value)
	}
	yaml, got, err := convert.Convert([]ratelimit.File{{Name: "f", Data: []byte(file)}}, problems)
	if err != nil || len(got) > 0 {
		t.Fatal(err, got)
	}
	var excepts []string
	for line := range strings.Lines(string(yaml)) {
		if strings.Contains(line, "except") {
			excepts = append(excepts, strings.TrimSpace(line))
		}
	}
	if text := strings.Join(excepts, "\n"); text != `except_descriptor: {k: ["/a/*", "/b/*"]}
except_descriptor: {k: ["/a/*", "*.png"]}
except_descriptor: {k: "/b/*"}` {
		t.Error(text)
	}
}

func TestConvertFaults(t *testing.T) {
	if _, _, err := convert.Convert([]ratelimit.File{{Name: "f", Data: []byte("domain: a\ndescriptors: [{value: b}]")}}, problems); err == nil || err.Error() != "f:2:15: descriptor has empty key; add key: NAME" {
		t.Error(err)
	}
	if _, _, err := convert.Convert([]ratelimit.File{{Name: "f", Data: []byte("domain: a")}}, problems); !errors.Is(err, convert.ErrNoLimits) {
		t.Error(err)
	}
	_, got, err := convert.Convert([]ratelimit.File{{Name: "f", Data: []byte("domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]")}}, func([]byte) []string { return []string{"p"} })
	if err != nil || got.Error() != "f: the rules together: p" {
		t.Errorf("%v, %v", got, err)
	}
}
