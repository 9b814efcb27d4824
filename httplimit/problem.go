// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/policy"
)

// quotaExceeded is the problem type of draft-ietf-httpapi-ratelimit-headers-11.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// WriteProblem is the answer of [Options] without Refuse: e.Status with a
// problem document (RFC 9457, application/problem+json) that says what
// happened and names the limits that denied. It shows a client nothing of an
// error of the store but when to retry: see [policy.RetryError]. A denial by a
// rule whose [policy.Answer] has a body is answered by that.
//
// A call of gRPC, by its Content-Type over HTTP/2, is answered with status 200 and
// the code of gRPC in the place of e.Status, with grpc-retry-pushback-ms: its
// clients take a bare 429 for a server that is down. Package grpclimit says more.
func WriteProblem(w http.ResponseWriter, r *http.Request, e Event) {
	h := w.Header()
	for _, of := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(h, of) // of an answer that was begun further out
	}
	if isRPC(r) {
		setRetryAfter(h, &e)
		writeRPC(w, &e)
		return
	}
	if writeAnswer(w, &e) {
		return
	}
	values := []string{"application/problem+json", "no-store"}
	h["Content-Type"], h["Cache-Control"] = values[0:1:1], values[1:2:2]
	setRetryAfter(h, &e)
	w.WriteHeader(e.Status)
	w.Write(appendProblem(make([]byte, 0, 384), e)) //nolint:errcheck // a client that is gone needs no answer
}

// writeAnswer answers a denial in its rule's own words, if it has any.
func writeAnswer(w http.ResponseWriter, e *Event) bool {
	a := e.Answer()
	if a == nil || a.Body == "" {
		return false
	}
	values := []string{a.ContentType, "no-store"}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(e.Status)
	w.Write(a.AppendBody(make([]byte, 0, 384), &e.Event, e.Status)) //nolint:errcheck // as of a problem
	return true
}

// appendProblem writes the document by hand: under attack nearly every answer
// is one, and what is in it is known.
func appendProblem(b []byte, e Event) []byte {
	kind, title := "about:blank", http.StatusText(e.Status)
	if e.Verdict == policy.Denied {
		kind, title = quotaExceeded, "Quota exceeded"
	}
	b = append(append(b, `{"type":"`...), kind...)
	b = append(append(b, `","title":"`...), title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	var buf [256]byte
	if detail := e.AppendDetail(buf[:0]); len(detail) > 0 {
		b = append(b, `,"detail":`...)
		b = appendJSON(b, detail)
	}
	if len(e.Violated) > 0 {
		b = append(b, `,"violated-policies":[`...)
		for i, name := range e.Violated {
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
			if err != nil { // of a string there is none
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
