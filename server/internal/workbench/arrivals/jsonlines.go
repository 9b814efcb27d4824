// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	errJSON   = errors.New("no object in JSON")
	errCaddy  = errors.New("no request of Caddy's access log")
	errRecord = errors.New("no decision of version 1 of the decision log")
)

// object is an object of JSON whose values are not read yet.
type object map[string]json.RawMessage

// read reads an object that begins at the start of the line.
func read[T any](line string, into *T) error {
	if line == "" || line[0] != '{' || json.Unmarshal([]byte(line), into) != nil {
		return errJSON
	}
	return nil
}

// field returns the value of a field as text, by the names on the way to it. A name may itself
// have dots.
func (o object) field(path string) (string, bool) {
	if raw, ok := o[path]; ok {
		return textOf(raw), true
	}
	for i := range path {
		if path[i] != '.' {
			continue
		}
		var under object
		if raw, ok := o[path[:i]]; ok && json.Unmarshal(raw, &under) == nil {
			if s, ok := under.field(path[i+1:]); ok {
				return s, true
			}
		}
	}
	return "", false
}

// textOf returns a string without its quotes, the only string of a list, and any other value as
// it is written.
func textOf(raw json.RawMessage) string {
	var s string
	var list []string
	switch {
	case len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil:
		return s
	case len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil && len(list) == 1:
		return list[0]
	case string(raw) == "null":
		return ""
	}
	return string(raw)
}

// jsonLines reads an object in each line.
type jsonLines struct {
	options Options
	time    string
	fields  []string // that are parts of a request
}

// detectJSON finds the fields of a request and of the time.
func detectJSON(sample []string, o Options) (*jsonLines, error) {
	j := &jsonLines{options: o, time: o.Time}
	have := object{}
	for _, line := range sample {
		_ = read(line, &have) // adds to it, unless the line is broken
	}
	if len(have) == 0 {
		return nil, errJSON
	}
	all := slices.Sorted(maps.Keys(have))
	for _, name := range times {
		i := slices.IndexFunc(all, func(s string) bool { return strings.EqualFold(s, name) })
		if i < 0 || j.time != "" {
			continue
		}
		if _, err := ParseTime(textOf(have[all[i]])); err == nil {
			j.time = all[i]
		}
	}
	for _, name := range all {
		if named(name) != colOther {
			j.fields = append(j.fields, name)
		}
	}
	for _, of := range []struct{ flag, name string }{{"time", o.Time}, {"key", o.Key}, {"cost", o.Cost}} {
		if _, ok := have.field(of.name); !ok && of.name != "" {
			return nil, &columnError{fmt.Sprintf("--%s %s: there is no such field; the lines have %s", of.flag, of.name, shorten(strings.Join(all, ", ")))}
		}
	}
	if j.time == "" {
		return nil, &columnError{"no field of the JSON has a time; name one with --time"}
	}
	return j, nil
}

func (j *jsonLines) parse(line string, a *Arrival) (bool, error) {
	var of object
	if err := read(line, &of); err != nil {
		return false, err
	}
	stamp, _ := of.field(j.time)
	var err error
	if a.At, err = ParseTime(stamp); err != nil {
		return false, err
	}
	for _, name := range j.fields {
		if raw, ok := of[name]; ok {
			if err := a.set(named(name), textOf(raw)); err != nil {
				return false, err
			}
		}
	}
	return true, of.choose(j.options, a)
}

// choose sets Key and Cost.
func (o object) choose(options Options, a *Arrival) error {
	if options.Key != "" {
		if a.Key, _ = o.field(options.Key); a.Key == "" {
			return errKey
		}
	}
	if options.Cost != "" {
		s, _ := o.field(options.Cost)
		return a.setCost(s)
	}
	return nil
}

// caddyLog reads Caddy's access log.
type caddyLog struct{ options Options }

func (c *caddyLog) parse(line string, a *Arrival) (bool, error) {
	var of struct {
		TS      json.RawMessage `json:"ts"`
		Request struct {
			Remote  string              `json:"remote_ip"`
			Client  string              `json:"client_ip"`
			Method  string              `json:"method"`
			Host    string              `json:"host"`
			URI     string              `json:"uri"`
			Headers map[string][]string `json:"headers"`
		} `json:"request"`
		Read     *int64   `json:"bytes_read"`
		Written  int64    `json:"size"`
		Status   int      `json:"status"`
		Duration *float64 `json:"duration"`
	}
	if err := read(line, &of); err != nil {
		return false, err
	}
	r := &of.Request
	if r.Method == "" || r.URI == "" {
		return false, errCaddy
	}
	var err error
	if a.At, err = ParseTime(textOf(of.TS)); err != nil {
		return false, err
	}
	if a.client(r.Remote); r.Client != "" {
		a.client(r.Client)
	}
	a.Has |= Method | Host | Path | Query | Headers | Status | Written
	a.Method, a.Host, a.Target, a.Status, a.Written = r.Method, r.Host, r.URI, of.Status, of.Written
	a.Headers = make(map[string][]string, len(r.Headers))
	for name, values := range r.Headers {
		a.Headers[http.CanonicalHeaderKey(name)] = values
	}
	if of.Read != nil {
		a.Read, a.Has = *of.Read, a.Has|Read
	}
	if of.Duration != nil && *of.Duration >= 0 && *of.Duration < 1e9 {
		a.Took, a.Has = time.Duration(*of.Duration*float64(time.Second)), a.Has|Took
		a.At = max(a.At-a.Took.Microseconds(), 0) // the line is written at the end
	}
	if c.options.Key == "" && c.options.Cost == "" {
		return true, nil
	}
	var all object
	if err := read(line, &all); err != nil {
		return false, err
	}
	return true, all.choose(c.options, a)
}

// decisionLog reads sluice's own decision log.
type decisionLog struct{ options Options }

func (d *decisionLog) parse(line string, a *Arrival) (bool, error) {
	var of struct {
		V        int            `json:"v"`
		Time     string         `json:"time"`
		Decided  int64          `json:"decided_us"`
		Method   string         `json:"method"`
		Host     string         `json:"host"`
		Path     string         `json:"path"`
		Client   string         `json:"client"`
		Verdict  string         `json:"verdict"`
		Status   int            `json:"status"`
		Bytes    int64          `json:"bytes"`
		Read     *int64         `json:"request_bytes"`
		Duration int64          `json:"duration_us"`
		Rules    []RecordedRule `json:"rules"`
	}
	if err := read(line, &of); err != nil {
		return false, err
	}
	if of.V != 1 || of.Verdict == "" {
		return false, errRecord
	}
	var err error
	if a.At, err = ParseTime(of.Time); err != nil {
		return false, err
	}
	if of.Decided > 0 {
		if a.At, err = ParseTime(strconv.FormatInt(of.Decided/second, 10)); err != nil {
			return false, err
		}
		a.At += of.Decided % second
	}
	a.client(of.Client)
	a.Has |= Method | Host | Path | Status | Written | Took
	a.Method, a.Host, a.Target, a.Status, a.Written = of.Method, of.Host, of.Path, of.Status, max(of.Bytes, 0)
	if a.Took = time.Duration(max(of.Duration, 0)) * time.Microsecond; of.Read != nil {
		a.Read, a.Has = *of.Read, a.Has|Read
	}
	a.Record = &Record{of.Verdict, of.Rules}
	if d.options.Key == "" && d.options.Cost == "" {
		return true, nil
	}
	var all object
	if err := read(line, &all); err != nil {
		return false, err
	}
	return true, all.choose(d.options, a)
}
