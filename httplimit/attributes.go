// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"

	"github.com/sluicegate/sluice/internal/wire"
)

// attributes are the Attributes of a request. The number of bytes after a switch of protocols
// is not known before, so such a request is charged as a body of unknown length.
type attributes struct {
	wire.Attributes
	of *Request
}

func (a *attributes) Length() int64 {
	if maySwitch(a.of.r) {
		return -1
	}
	return a.Attributes.Length()
}

// maySwitch reports whether a request asks for another protocol. A request with a body of
// known length, as of clients that offer HTTP/2, is charged for that body at once.
func maySwitch(r *http.Request) bool {
	return r.ProtoMajor == 1 && len(r.Header["Upgrade"]) > 0 && (r.Method == http.MethodGet || r.ContentLength == 0)
}

// Claim returns a claim of the request's token, which its first call verifies.
func (a *attributes) Claim(name string) (string, error) {
	q := a.of
	verify := func() (func(string) (string, error), error) { return nil, nil } // there is no token
	if q.mw.opts.Claims != nil {
		verify = func() (func(string) (string, error), error) { return q.mw.opts.Claims(q.r) }
	}
	return q.token.Claim(name, verify, q.mw.opts.TokenRequired, func(err error) { q.mw.report(q.r, err) })
}
