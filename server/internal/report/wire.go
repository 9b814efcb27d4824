// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/sluicegate/sluice/server/internal/outcome"
)

// Bounds of written and read texts.
const (
	MostNodeBytes   = 4 << 10
	MostReportBytes = 256 << 10
	mostInflated    = 4 << 20

	// MostTogether is the most bytes of the reports of all nodes in memory, as [Decode]
	// counts them.
	MostTogether = 64 << 20

	// MostRules is the most rules that a node reports, MostLookedAt the most of them in
	// detail.
	MostRules = 2000
	// MostKeys is the number of keys of each level that a node reports.
	MostKeys = 20
	// MostNamed is the most rules that a node's line names.
	MostNamed    = 16
	MostLookedAt = 32

	mostName       = 256 // bytes
	mostSteps      = 1440
	mostCandidates = 64   // of a rule
	mostTried      = 4000 // candidates of all rules
	mostLevels     = 64
	mostKeys       = 100
	mostCount      = 1 << 53
)

var (
	errBounds = errors.New("it has invalid values")
	errLarge  = errors.New("it is too large")

	errTogether = errors.New("the reports of all nodes are too large together")
)

// otherVersion returns the error for a text of version v.
func otherVersion(v int) error {
	return fmt.Errorf("it has version %d, and this node reads version %d: update this node, or look at the page of one that is", v, version)
}

// Encode writes a node's line.
func (n *Node) Encode() ([]byte, error) {
	n.V = version
	n.Name, n.Version, n.Listen, n.Upstream = cut(n.Name), cut(n.Version), cut(n.Listen), cut(n.Upstream)
	return json.Marshal(n)
}

// cut returns the beginning of a text that fits.
func cut(text string) string {
	for len(text) > mostName || !utf8.ValidString(text) {
		text = text[:min(len(text)-1, mostName)]
	}
	return text
}

// DecodeNode reads the line of the node with an id.
func DecodeNode(id string, data []byte) (n Node, err error) {
	if len(data) > MostNodeBytes {
		return n, errLarge
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return n, fmt.Errorf("it cannot be read: %w", err)
	}
	switch {
	case n.V != version:
		return n, otherVersion(n.V)
	case n.ID != id || !names(n.ID, n.Name, n.Version, n.Listen, n.Config, n.Rules, n.Upstream) || len(n.Named) > MostNamed || !names(n.Named...) || n.Started < 0 || n.Clock < 0 || n.Clock > 1<<50 || n.Started > 1<<50 || !numbers(n.Total.Max()):
		return n, errBounds
	}
	return n, nil
}

// Encode writes a report. If it is too large, it leaves out the details of the last rules.
func (r *Report) Encode() ([]byte, error) {
	r.V = version
	for {
		data, err := r.deflate()
		if err != nil || len(data) <= MostReportBytes {
			return data, err
		}
		if !r.shorten() {
			return nil, errLarge
		}
	}
}

// shorten leaves out half of the details or, without details, half of the rules.
func (r *Report) shorten() bool {
	var detailed []*Rule
	for i := range r.Rules {
		if r.Rules[i].Detail != nil {
			detailed = append(detailed, &r.Rules[i])
		}
	}
	for _, rule := range detailed[len(detailed)/2:] {
		rule.Detail = nil
	}
	if n := len(r.Rules) / 2; len(detailed) == 0 {
		r.More += len(r.Rules) - n
		r.Rules = r.Rules[:n]
		return n > 0
	}
	return true
}

func (r *Report) deflate() ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := errors.Join(e.Encode(r), w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Decode reads the report of the node with an id into at most room bytes of memory. took is
// the memory used, also after an error.
func Decode(id string, data []byte, room int) (r *Report, took int, err error) {
	if len(data) > MostReportBytes {
		return nil, 0, errLarge
	}
	most := max(min(mostInflated, room), 0)
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), int64(most)+1))
	took = len(plain)
	switch {
	case took > mostInflated:
		return nil, took, errLarge
	case took > most:
		return nil, took, errTogether
	case err != nil:
		return nil, took, fmt.Errorf("it cannot be read: %w", err)
	}
	r = new(Report)
	err = json.Unmarshal(plain, r)
	switch took += r.size(); {
	case r.V > version: // checked first: it may be the cause of err
		return nil, took, otherVersion(r.V)
	case err != nil:
		return nil, took, fmt.Errorf("it cannot be read: %w", err)
	case r.V != version:
		return nil, took, otherVersion(r.V)
	case r.ID != id || !r.sound():
		return nil, took, errBounds
	case took > room:
		return nil, took, errTogether
	}
	return r, took, nil
}

// size returns the memory, in bytes, of the lists of a report beside their text. It may be
// much larger than the text.
func (r *Report) size() int {
	n := cap(r.Rules) * int(reflect.TypeFor[Rule]().Size())
	for i := range r.Rules {
		n += cap(r.Rules[i].Candidates) * int(reflect.TypeFor[outcome.CandidateReport]().Size())
	}
	return n
}

// sound reports whether all parts of a report are within their bounds, so that it can be
// summed with the reports of a thousand other nodes.
func (r *Report) sound() bool {
	if !names(r.ID, r.Hashed) || !numbers(r.Total.Max()) || !r.Recent.Sound(mostSteps) || !r.Day.Sound(mostSteps) || len(r.Rules) > MostRules || r.More < 0 || int64(r.More) > mostCount {
		return false
	}
	seen, tried := make(map[string]bool, len(r.Rules)), 0
	for i := range r.Rules {
		rule := &r.Rules[i]
		if tried += len(rule.Candidates); tried > mostTried {
			return false
		}
		if seen[rule.Name] || !rule.sound() {
			return false
		}
		seen[rule.Name] = true
	}
	return true
}

func (r *Rule) sound() bool {
	if r.Name == "" || !names(r.Name) || !numbers(r.Counts.Max(), r.Unstated, r.Recent.Max()) || len(r.Candidates) > mostCandidates {
		return false
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if !names(c.Level, c.Name) || !numbers(c.Evaluated, c.WouldDeny, c.Rescued) {
			return false
		}
	}
	d := r.Detail
	if d == nil {
		return true
	}
	if !d.Recent.Sound(mostSteps) || !d.Day.Sound(mostSteps) || len(d.Top) > mostLevels {
		return false
	}
	for i := range d.Top {
		l := &d.Top[i]
		if !names(l.Level) || !numbers(l.Total, l.Recent, l.Rest) || len(l.Keys) > mostKeys {
			return false
		}
		for _, k := range l.Keys {
			if len(k.Key) > mostName || k.Least > k.Most || k.Recent > k.Most || !numbers(k.Most) {
				return false
			}
		}
	}
	return true
}

func names(all ...string) bool {
	return !slices.ContainsFunc(all, func(text string) bool { return len(text) > mostName || !utf8.ValidString(text) })
}

func numbers(all ...uint64) bool { return slices.Max(all) <= mostCount }
