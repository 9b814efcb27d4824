// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import "net/http"

// repeat returns a copy of the request to send again, with a new body, if it may be repeated.
func (t *Transport) repeat(r *http.Request) (*http.Request, bool) {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
	default:
		may := t.opts.Repeatable
		if may == nil {
			may = carriesKey
		}
		if !may(r) {
			return nil, false
		}
	}
	again := r.WithContext(r.Context()) // a copy: the caller's request must not change
	if r.Body == nil || r.Body == http.NoBody {
		return again, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, false
	}
	again.Body = body
	return again, true
}

// carriesKey reports whether the server recognizes a repeated request by its key.
func carriesKey(r *http.Request) bool {
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}
