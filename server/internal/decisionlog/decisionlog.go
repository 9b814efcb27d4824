// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package decisionlog writes a line of JSON for each HTTP request: the decision, its limits,
// the client, and the outcome. docs/decision-log.md is its schema.
package decisionlog

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"

	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

// Version is the version of the schema. It grows when a field is removed or changes its
// meaning, not when one is added.
const Version = 1

// Requests selects the requests with a line.
type Requests uint8

// The kinds of requests that have a line.
const (
	All    Requests = iota // every request
	Denied                 // requests not passed on, or that a shadow rule would have denied
	Sample                 // all requests of some keys
)

// Options are the options of an [Encoder]. The zero value logs all requests, with keys hashed
// under an empty secret.
type Options struct {
	Node     string // node that decided
	Config   string // version of the configuration
	Requests Requests
	// Every is how many keys a sample takes one of, and By the rule of these keys. Empty means
	// the client's address, which also replaces a key that a request lacks under the rule.
	Every uint64
	By    string
	// Plain writes keys in clear instead of their HMAC-SHA256 under Secret.
	Plain  bool
	Secret []byte
}

// Encoder writes lines under one configuration. It is immutable, except for cached texts, one
// for each limit of the policy. It is safe for concurrent use.
type Encoder struct {
	o      Options
	head   []byte // beginning of each line
	sample []byte // field of the sample
	limits sync.Map
	hashes sync.Pool
}

// hasher hashes keys.
type hasher struct {
	hash.Hash
	sum [sha256.Size]byte
	key []byte
}

// New returns an Encoder.
func New(o Options) *Encoder {
	e := &Encoder{o: o}
	b := strconv.AppendInt([]byte(`{"v":`), Version, 10)
	b = appendField(b, `,"node":`, o.Node, mostName)
	e.head = appendField(b, `,"config":`, o.Config, mostName)
	if o.Requests == Sample {
		b = strconv.AppendUint([]byte(`,"sample":{"every":`), max(o.Every, 1), 10)
		e.sample = append(appendField(b, `,"by":`, cmp.Or(o.By, "client"), mostName), '}')
	}
	e.hashes.New = func() any { return &hasher{Hash: hmac.New(sha256.New, o.Secret)} }
	return e
}

// Wants reports whether a request has a line.
func (e *Encoder) Wants(r *front.Record) bool {
	switch {
	case r.Own: // nothing was decided
		return false
	case e.o.Requests == Denied:
		return !r.Event.Verdict.Passes() || len(r.Event.Violated) > 0
	case e.o.Requests == Sample:
		return e.sampled(r)
	}
	return true
}

// sampled reports whether a request's key is in the sample. The hash is the same on all nodes
// and has no secret: a client that chooses its key can choose to be logged.
func (e *Encoder) sampled(r *front.Record) bool {
	var buf [64]byte // an address with its zone
	key, ok := e.keyOf(r.Event.Evaluated)
	if ok {
		return hashOf(key)%max(e.o.Every, 1) == 0
	}
	return hashOf(r.Request.Client().AppendTo(buf[:0]))%max(e.o.Every, 1) == 0
}

// hashOf is FNV-1a with mixed bits, as keys may differ in few bits.
func hashOf[T string | []byte](key T) uint64 {
	x := uint64(14695981039346656037)
	for i := range len(key) {
		x = (x ^ uint64(key[i])) * 1099511628211
	}
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// keyOf returns the request's key under the rule By.
func (e *Encoder) keyOf(v *evaluate.Verdict) (key string, ok bool) {
	if e.o.By == "" || v == nil {
		return "", false
	}
	if f := v.InFlight; f != nil && f.Rule.Name == e.o.By {
		return f.Key, true
	}
	for o := range v.Outcomes() {
		if o.Rule.Name == e.o.By {
			return o.Key, true
		}
	}
	for s := range v.Trials() {
		if s.Shadow && s.Rule.Name == e.o.By && s.Err == nil {
			return s.Key, true
		}
	}
	return "", false
}

// appendKey appends a key in the form of the log.
func (e *Encoder) appendKey(b []byte, key string) []byte {
	switch {
	case key == "":
		return b // one budget for all
	case e.o.Plain:
		return appendField(b, `,"key":`, key, mostKey)
	}
	return e.appendHash(b, key)
}

func (e *Encoder) appendHash(b []byte, key string) []byte {
	h := e.hashes.Get().(*hasher) //nolint:forcetypeassert // nothing else is ever put
	h.Reset()
	h.key = append(h.key[:0], key...)
	_, _ = h.Write(h.key) // a hash has no errors
	sum := h.Sum(h.sum[:0])
	b = append(b, `,"key_hash":"`...)
	b = append(hex.AppendEncode(b, sum[:16]), '"')
	e.hashes.Put(h)
	return b
}

// Fields returns the forms in which a log may have a key that is not empty: hashed under the
// secret of e, or in clear. A previous configuration may have chosen otherwise.
func (e *Encoder) Fields(key string) [][]byte {
	return [][]byte{e.appendHash(nil, key)[1:], appendField(nil, `"key":`, key, mostKey)}
}
