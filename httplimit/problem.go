// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/policy/evaluate"
)

// quotaExceeded is the problem type of draft-ietf-httpapi-ratelimit-headers-11.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// WriteProblem writes the answer of [Options] without Refuse: e.Status with a problem document
// (RFC 9457, application/problem+json) that states the problem and names the limits that
// denied. For a store error the answer states only when to retry: see [evaluate.Event.Retry].
// A denial by a rule whose [policy.Answer] has a body is answered with that body.
//
// A gRPC call, by its Content-Type over HTTP/2, is answered with status 200 and the gRPC code
// for e.Status, with grpc-retry-pushback-ms: gRPC clients treat a bare 429 as a server that is
// down. See package grpclimit.
func WriteProblem(w http.ResponseWriter, r *http.Request, e Event) {
	deleteStarted(w.Header())
	p := problem{Event: &e.Event, status: e.Status, answer: e.answers.of(&e.Event), memory: &memory{alone: true}}
	p.write(w, r)
}

// deleteStarted deletes the fields of an answer that an outer handler has begun.
func deleteStarted(h http.Header) {
	for _, of := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(h, of)
	}
}

// problem is the answer to a request that is not passed on.
type problem struct {
	*evaluate.Event
	status int
	answer *ruleAnswer // the rule's own; nil: none
	item   *limitItem  // of the limit that binds; nil: only its name is known
	memory *memory     // for the header's values
	buf    []byte      // for the body
}

func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if isRPC(r) {
		setRetryAfter(h, p.Event)
		writeRPC(w, p.Event)
		return
	}
	if cap(p.buf) == 0 {
		p.buf = make([]byte, 0, 384)
	}
	if a := p.answer; a != nil && a.contentType != "" {
		p.setType(h, a.contentType)
		p.buf = a.appendBody(p.buf, p.Event, p.status)
	} else {
		p.setType(h, "application/problem+json")
		setRetryAfter(h, p.Event)
		p.buf = p.append(p.buf)
	}
	w.WriteHeader(p.status)
	w.Write(p.buf) //nolint:errcheck // a client that has left needs no answer
}

// setType sets the type of the body, and forbids caches to store it.
func (p *problem) setType(h http.Header, contentType string) {
	values := p.memory.strings(2)
	values[0], values[1] = contentType, "no-store"
	h["Content-Type"], h["Cache-Control"] = values[0:1:1], values[1:2:2]
}

// append appends the document. Under attack nearly every answer is a denial by one limit, and
// they differ only in the time to retry.
func (p *problem) append(b []byte) []byte {
	if p.item == nil || p.Verdict != evaluate.Denied || p.Limit.Block.For > 0 || p.Decision.TooLarge || len(p.Violated) != 1 {
		return p.appendWhole(b)
	}
	d := p.item.denial.Load()
	if d == nil {
		d = p.denial()
		p.item.denial.Store(d)
	}
	if d.status != p.status {
		return p.appendWhole(b)
	}
	b = append(b, d.head...)
	b = strconv.AppendInt(b, max(ceilSeconds(p.Decision.RetryAfter), 1), 10)
	return append(b, d.tail...)
}

// denial is the document of a denial by one limit, without the number of seconds.
type denial struct {
	status     int
	head, tail string
}

// denial returns the text that all denials by the limit share.
func (p *problem) denial() *denial {
	e := *p.Event
	e.Decision.RetryAfter = time.Second
	one := problem{Event: &e, status: p.status}
	head, tail, _ := strings.Cut(string(one.appendWhole(nil)), `1 s","violated-policies":`) // no name has a quote
	return &denial{status: p.status, head: head, tail: ` s","violated-policies":` + tail}
}

// appendWhole appends the document without package json, as its form is fixed.
func (p *problem) appendWhole(b []byte) []byte {
	kind, title := "about:blank", http.StatusText(p.status)
	if p.Verdict == evaluate.Denied {
		kind, title = quotaExceeded, "Quota exceeded"
	}
	b = append(append(b, `{"type":"`...), kind...)
	b = append(append(b, `","title":"`...), title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(p.status), 10)
	var buf [256]byte
	if detail := p.AppendDetail(buf[:0]); len(detail) > 0 {
		b = append(b, `,"detail":`...)
		b = appendJSON(b, detail)
	}
	if len(p.Violated) > 0 {
		b = append(b, `,"violated-policies":[`...)
		for i, name := range p.Violated {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendItem(b, name) // names have no byte that would need escaping
		}
		b = append(b, ']')
	}
	return append(b, '}', '\n')
}

// appendJSON appends s as a JSON string.
func appendJSON(b, s []byte) []byte {
	start := len(b)
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c < ' ' || c > '~': // rare: a name in an error text
			quoted, err := json.Marshal(string(s))
			if err != nil { // a string is always marshaled
				return append(b[:start], `""`...)
			}
			return append(b[:start], quoted...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
