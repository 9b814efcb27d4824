// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice"
)

// Key says whose budget a request draws on. The zero Key is not valid: make
// one with [ByIP], [ByHeader] and their like, or [KeyFunc].
//
// A Key that was made with bad arguments says so when a [Middleware] is made
// of it, so that all faults come at once. Keys are values, safe for concurrent
// use.
//
// An empty value is a missing one, whatever the key is made of. A value above
// [MaxValueBytes] is refused, and so is one that is sent more than once, since
// the limiter might then charge one value and the application use another.
type Key struct {
	name     string
	value    func(*http.Request) (string, error)
	compound bool // made of other keys, which have checked their own size
	fault    error
}

// MaxValueBytes is the longest value that one part of a key may have.
const MaxValueBytes = 8 << 10

// KeyFunc returns a Key that calls f, which must be safe for concurrent use.
// The name is for error texts: "session", "device id". If the request lacks
// the key, f returns "" or [Missing]; for what the client did wrong otherwise,
// [Invalid]. Any other error is treated as one of the store.
func KeyFunc(name string, f func(*http.Request) (string, error)) Key {
	switch {
	case name == "":
		return badKey("KeyFunc: the name is empty; say what the key is, for error texts")
	case f == nil:
		return badKey("KeyFunc %q: the function is nil", name)
	}
	return Key{name: name, value: f}
}

func badKey(format string, args ...any) Key {
	return Key{fault: fmt.Errorf("httplimit: "+format, args...)}
}

// String returns what the key is made of, such as "header X-User-Id".
func (k Key) String() string { return k.name }

// Err returns what is wrong with the key's arguments, nil if nothing is.
func (k Key) Err() error {
	if k.fault == nil && k.value == nil {
		return errors.New("httplimit: the key is empty; use ByIP(), ByHeader(…) or another")
	}
	return k.fault
}

// Of returns the request's key. It is never empty without an error. What the
// client did wrong is a [*RequestError]. An invalid Key returns Err.
func (k Key) Of(r *http.Request) (string, error) {
	if err := k.Err(); err != nil {
		return "", err
	}
	v, err := k.value(r)
	most := MaxValueBytes
	if k.compound {
		most = sluice.MaxKeyBytes
	}
	switch {
	case err != nil:
		return "", err
	case v == "":
		return "", Missing(k.name)
	case len(v) > most:
		return "", Invalid(k.name, fmt.Sprintf("has %d bytes; at most %d are accepted", len(v), most))
	}
	return v, nil
}

// RequestError is a request that cannot be charged because of what the client
// sent or left out.
type RequestError struct {
	Part    string // of the request, such as "header X-User-Id"
	Problem string // what is wrong with it; never holds what the client sent
	Missing bool   // the part is not there, or empty
}

// Error returns the part and the problem.
func (e *RequestError) Error() string { return e.Part + " " + e.Problem }

// Missing returns a [*RequestError] for a part that is not there.
func Missing(part string) error {
	return &RequestError{Part: part, Problem: "is missing", Missing: true}
}

// Invalid returns a [*RequestError] for a part that is there and cannot be used.
func Invalid(part, problem string) error {
	return &RequestError{Part: part, Problem: problem}
}
