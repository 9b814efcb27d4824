// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

// Bounds of a call.
const (
	mostBody   = 1 << 20 // bytes
	mostBatch  = 1000    // requests
	mostFaults = 100     // that an answer lists
	mostFields = 256     // header fields, parameters and so on of a request
	mostText   = 8 << 10 // bytes of each, and of a path and a key
	mostScope  = 128     // bytes of the scope of a request with limits of its own
	mostID     = 128     // bytes of the id of a hold, of an owner, and of an Idempotency-Key

	remember     = 10 * time.Minute // the answer under an Idempotency-Key, by default
	mostRemember = time.Hour
)

// fault is a fault of a document.
type fault struct {
	Field  string `json:"field"` // such as requests[3].cost; empty: the whole
	Detail string `json:"detail"`
}

// faults collects the faults of a document.
type faults []fault

func (f *faults) add(at place, field, format string, args ...any) {
	if len(*f) < mostFaults {
		*f = append(*f, fault{strings.Trim(at.String()+"."+field, "."), fmt.Sprintf(format, args...)})
	}
}

// place is an item of a list in a document, or the whole.
type place struct {
	list string // empty: the whole
	item int
}

func (p place) String() string {
	if p.list == "" {
		return ""
	}
	return fmt.Sprintf("%s[%d]", p.list, p.item)
}

// request is one request of a call. Its operation says which of its fields it may have.
type request struct {
	Rule string `json:"rule"`

	// The following describe a request to the rule.

	Method      string              `json:"method"`
	Host        string              `json:"host"`
	Path        string              `json:"path"`
	Headers     map[string][]string `json:"headers"`
	Query       map[string][]string `json:"query"`
	Cookies     map[string][]string `json:"cookies"`
	Client      string              `json:"client"`
	Claims      map[string]string   `json:"claims"`
	Certificate map[string]string   `json:"certificate"`
	Descriptor  map[string]string   `json:"descriptor"`
	BodyBytes   *int64              `json:"body_bytes"`

	// The following stand in place of a rule.

	Scope  string   `json:"scope"`
	Key    string   `json:"key"`
	Limits []string `json:"limits"`

	Cost    *int64 `json:"cost"`
	ID      string `json:"id"`
	TTL     *int64 `json:"ttl_ms"`
	Receipt string `json:"receipt"`
	Retry   bool   `json:"retry"`
	Owner   string `json:"owner"`
	Cap     *int64 `json:"cap"`

	attributes policy.Attributes
	evaluator  *evaluate.Evaluator // of the rule
	plan       *sluice.Plan        // of Limits
	hold       *sluice.Hold        // that the request opens or names; nil: none
	receipt    front.Receipt
}

// body is the body of a call: a request, or a batch of them.
type body struct {
	request
	Requests items  `json:"requests"`
	All      bool   `json:"all"`         // all pass, or none
	Remember *int64 `json:"remember_ms"` // an answer under an Idempotency-Key

	list []*request
}

// items are the requests of a batch, not yet decoded. Those beyond the first mostBatch+1 are left out.
type items []json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (l *items) UnmarshalJSON(text []byte) error {
	if *l = nil; text[0] != '[' {
		return json.Unmarshal(text, new([]json.RawMessage)) // null, or an error
	}
	*l = items{}
	d := json.NewDecoder(bytes.NewReader(text))
	_, err := d.Token()
	for err == nil && d.More() && len(*l) <= mostBatch {
		*l = append(*l, nil)
		err = d.Decode(&(*l)[len(*l)-1])
	}
	return err
}

// place returns the place of the i-th request.
func (b *body) place(i int) place {
	if b.Requests == nil {
		return place{}
	}
	return place{"requests", i}
}

// decode reads the body of a call.
func decode(document []byte, op *operation) (b *body, all faults) {
	b = new(body)
	whole := decodeInto(document, b, place{}, &all)
	switch {
	case len(b.Requests) > mostBatch:
		all.add(place{}, "requests", "are more than %d; send fewer at once", mostBatch)
		return b, all
	case b.Requests == nil && !whole:
		return b, all
	case b.Requests == nil:
		b.list = []*request{&b.request}
		b.check(op, place{}, &all)
		if b.All {
			all.add(place{}, "all", "is for a batch; list its requests under requests")
		}
	case len(b.Requests) == 0:
		all.add(place{}, "requests", "are none")
	case !reflect.DeepEqual(b.request, request{}):
		all.add(place{}, "requests", "stand beside fields of a single request; move these into requests")
	}
	for i := range b.Requests {
		q := new(request)
		if b.list = append(b.list, q); decodeInto(b.Requests[i], q, b.place(i), &all) {
			q.check(op, b.place(i), &all)
		}
	}
	if b.All && op.name != "take" && op.name != "peek" {
		all.add(place{}, "all", "is for take and peek")
	}
	if b.Remember != nil && (op.name != "take" || *b.Remember < 1000 || *b.Remember > mostRemember.Milliseconds()) {
		all.add(place{}, "remember_ms", "is for take, and must be 1000 to %d", mostRemember.Milliseconds())
	}
	return b, all
}

// decodeInto reads one JSON value without unknown fields, at a place in the document.
// The names of its fields must be lower case.
func decodeInto(document []byte, into any, at place, all *faults) bool {
	d := json.NewDecoder(bytes.NewReader(document))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && utf8.Valid(document) {
		names := map[string]struct{}{}
		if bytes.ContainsFunc(document, isUpper) || bytes.Contains(document, []byte(`\u`)) {
			_ = json.Unmarshal(document, &names) // the values are of other types
		}
		for name := range names {
			if strings.ContainsFunc(name, isUpper) {
				err = errors.New("json: unknown field " + name)
			}
		}
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("there is more than one value")
		}
		if err == nil {
			return true
		}
	}
	field, detail := "", "is not JSON in UTF-8"
	if of, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field, detail = strings.TrimPrefix(of.Field, "request."), fmt.Sprintf("is a JSON %s; it must be %s", of.Value, kinds[of.Type.Kind().String()])
	} else if name, ok := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); ok {
		field, detail = strings.Trim(name, `"`), "is no field of this call"
	} else if err != nil {
		detail += ": " + strings.TrimPrefix(err.Error(), "json: ")
	}
	all.add(at, field, "%s", detail)
	return false
}

// isUpper reports whether Decode may take a letter for another one, in lower case.
func isUpper(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' }

// kinds says in words which JSON a Go type is read from.
var kinds = map[string]string{
	"string": "a text", "int64": "a whole number, without a fraction or an exponent", "bool": "true or false",
	"slice": "a list", "map": "an object", "struct": "an object",
}

// option is a field that some operations have.
type option struct {
	name  string
	given bool
}

func (q *request) options() [7]option {
	return [...]option{
		{"cost", q.Cost != nil},
		{"id", q.ID != ""},
		{"ttl_ms", q.TTL != nil},
		{"receipt", q.Receipt != ""},
		{"retry", q.Retry},
		{"owner", q.Owner != ""},
		{"cap", q.Cap != nil},
	}
}

// check finds faults of a request, at a place in the document.
func (q *request) check(op *operation, at place, all *faults) {
	slots, leastCost := op.name == "slots", int64(0)
	if slots {
		leastCost = 1
	}
	for _, o := range q.options() {
		needed := op.needs != "" && strings.Contains(op.needs, " "+o.name+" ")
		switch {
		case needed && !o.given:
			all.add(at, o.name, "is missing")
		case o.given && !needed && !strings.Contains(op.fields, " "+o.name+" "):
			all.add(at, o.name, "is no field of this call")
		}
	}
	described := q.Method != "" || q.Host != "" || q.Path != "" || q.Client != "" || q.BodyBytes != nil ||
		len(q.Headers)+len(q.Query)+len(q.Cookies)+len(q.Claims)+len(q.Certificate)+len(q.Descriptor) > 0
	switch {
	case slots && q.Scope == "":
		all.add(at, "scope", "is missing")
	case q.Scope == "" && q.Rule == "":
		all.add(at, "rule", "is missing; name a rule, or a scope with limits")
	case q.Scope != "" && (q.Rule != "" || described):
		all.add(at, "scope", "stands beside a rule or its attributes; leave out one of them")
	case q.Rule != "" && (q.Key != "" || len(q.Limits) > 0):
		all.add(at, "rule", "has a key and limits of its own; leave these out, or name a scope")
	case q.Scope != "" && slots == (len(q.Limits) > 0):
		all.add(at, "limits", `must be some such as ["100/min"], and slots have none`)
	}
	for _, t := range [...]struct {
		name, text string
		most       int
	}{{"rule", q.Rule, 64}, {"method", q.Method, 64}, {"host", q.Host, 256}, {"path", q.Path, mostText}, {"scope", q.Scope, mostScope}, {"key", q.Key, mostText}, {"id", q.ID, mostID}, {"owner", q.Owner, mostID}} {
		if len(t.text) > t.most {
			all.add(at, t.name, "has %d bytes; at most %d are accepted", len(t.text), t.most)
		}
	}
	for _, n := range [...]struct {
		name        string
		value       *int64
		least, most int64
	}{
		{"cost", q.Cost, leastCost, sluice.MaxQuota},
		{"body_bytes", q.BodyBytes, 0, sluice.MaxQuota},
		{"cap", q.Cap, 1, 1 << 16},
		{"ttl_ms", q.TTL, sluice.MinHold.Milliseconds(), sluice.MaxHold.Milliseconds()},
	} {
		if n.value != nil && (*n.value < n.least || *n.value > n.most) {
			all.add(at, n.name, "is %d; it must be %d to %d", *n.value, n.least, n.most)
		}
	}
	if q.Receipt != "" && op.name == "refund" {
		var ok bool
		if q.receipt, ok = front.ParseReceipt(q.Receipt); !ok || q.Cost != nil && *q.Cost > q.receipt.Units {
			all.add(at, "receipt", "is not that of a take of as many units")
		}
	}
	q.describe(at, all)
}

// describe sets the attributes of a request.
func (q *request) describe(at place, all *faults) {
	if q.Method != "" && !wire.Token(q.Method) {
		all.add(at, "method", "is not one word, such as POST")
	}
	if q.Path != "" && (q.Path[0] != '/' || strings.ContainsAny(q.Path, "?#")) {
		all.add(at, "path", "must begin with a slash, and have no query; put that under query")
	}
	client, err := netip.ParseAddr(q.Client)
	if q.Client != "" && (err != nil || client.Zone() != "") {
		all.add(at, "client", "is not an address, such as 192.0.2.7")
	}
	n := 0
	field := func(of, name string, values ...string) {
		n += max(len(values), 1)
		for _, text := range append(values, name) {
			if len(text) > mostText {
				all.add(at, of, "have a name or a value of %d bytes; at most %d are accepted", len(text), mostText)
			}
		}
	}
	for name, values := range q.Headers {
		field("headers", name, values...)
	}
	for name, values := range q.Query {
		field("query", name, values...)
	}
	for name, values := range q.Cookies {
		field("cookies", name, values...)
	}
	for name, value := range q.Claims {
		field("claims", name, value)
	}
	for name, value := range q.Certificate {
		field("certificate", name, value)
	}
	for key, value := range q.Descriptor {
		field("descriptor", key, value)
	}
	if n > mostFields {
		all.add(at, "", "has %d header fields, parameters, cookies, claims, names and entries; at most %d are accepted", n, mostFields)
	}
	a := policy.Request{
		Method: q.Method, Host: policy.HostOf(q.Host), Path: q.Path, Headers: q.Headers, Queries: q.Query,
		Cookies: q.Cookies, Client: client.Unmap(), Claims: q.Claims, Certificates: q.Certificate, Descriptor: q.Descriptor, Length: -1,
	}
	for name := range q.Headers {
		if http.CanonicalHeaderKey(name) != name {
			a.Headers = q.canonical(at, all)
			break
		}
	}
	if q.BodyBytes != nil {
		a.Length = *q.BodyBytes
	}
	q.attributes = a.Attributes()
}

// canonical returns the header fields of a request by their canonical names.
func (q *request) canonical(at place, all *faults) map[string][]string {
	fields := make(map[string][]string, len(q.Headers))
	for name, values := range q.Headers {
		own := http.CanonicalHeaderKey(name)
		if _, there := fields[own]; there {
			all.add(at, "headers", "have %s twice, as the case of letters does not matter; give it once, with all values", own)
		}
		fields[own] = values
	}
	return fields
}
