// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/policy"
)

// Key is a part of a request, or several as one, by which requests are counted. [New]
// reports faults of its arguments, with all other faults.
//
// An empty value is a missing one, in every Key. A value above 8 KiB is refused, and so is
// one that is sent more than once, since the limiter might then charge one value and the
// application use another.
type Key = policy.Part

// KeyFunc returns a Key that calls f, which must be safe for concurrent use. The name is
// for error texts: "session", "device id". If the request lacks the key, f returns ""; for
// another fault of the client, [Invalid]. Any other error is treated as a store error.
func KeyFunc(name string, f func(*http.Request) (string, error)) Key {
	if f == nil {
		return policy.Func(name, nil)
	}
	return policy.Func(name, func(a policy.Attributes) (string, error) {
		if of, ok := a.(interface{ Request() *http.Request }); ok {
			return f(of.Request())
		}
		return "", nil // only HTTP requests have such a key
	})
}

// Invalid returns the error of a [KeyFunc] for a key that the request has and that is not
// usable. The answer holds the key's name followed by the problem, which must not hold a
// value that the client sent: "is not signed".
func Invalid(problem string) error { return &policy.PartError{Problem: problem} }

// ByIP returns a Key of the client's address: an IPv4 address, or an IPv6 network of /64.
// [Options] configure how it is found through proxies.
func ByIP() Key { return policy.IP() }

// ByHeader returns a Key of a header field's value. Use it for fields that a trusted peer
// sets, or that have been verified.
func ByHeader(name string) Key { return policy.Header(name) }

// ByCookie returns a Key of a cookie's value. Escapes such as %41 are decoded, as many
// applications do. A cookie that servers read in different ways is refused, as a session
// would otherwise have a budget for every spelling.
func ByCookie(name string) Key { return policy.Cookie(name) }

// ByQuery returns a Key of a query parameter's value, unescaped. A parameter on which
// servers do not agree is refused.
func ByQuery(name string) Key { return policy.Query(name) }

// ByHost returns a Key of the requested host in lower case, without its port. A client may
// name any host: use it behind a front that accepts only known hosts.
func ByHost() Key { return policy.Host() }

// ByPathSegment returns a Key of the n-th segment of the path, from 1: the
// second of /users/u1/cart is u1. See [policy.Segment].
func ByPathSegment(n int) Key { return policy.Segment(n) }

// ByPattern returns a Key of the [http.ServeMux] pattern that matched, such as
// "GET /users/{id}". Only a Middleware around a handler that is registered in the mux knows
// it; around the mux itself use [ByRoute].
func ByPattern() Key {
	return KeyFunc("route", func(r *http.Request) (string, error) { return r.Pattern, nil })
}

// ByRoute returns a Key of the pattern under which mux would serve the request.
// A request without a pattern in mux lacks the key.
func ByRoute(mux *http.ServeMux) Key {
	if mux == nil {
		return KeyFunc("route", nil)
	}
	return KeyFunc("route", func(r *http.Request) (string, error) {
		_, pattern := mux.Handler(r)
		return pattern, nil
	})
}

// ByClaim returns a Key of a claim, such as a user's id, of a token that was verified before
// the Middleware runs. The function claim looks it up where the verifier has left it. The
// key is missing if claim returns false.
func ByClaim(name string, claim func(*http.Request) (string, bool)) Key {
	if name != "" { // else New reports the missing name
		name = "claim " + name
	}
	if claim == nil {
		return KeyFunc(name, nil)
	}
	return KeyFunc(name, func(r *http.Request) (string, error) {
		if v, ok := claim(r); ok {
			return v, nil
		}
		return "", nil
	})
}

// Join returns a Key of several keys: requests that differ in any of them have different
// budgets. A request that lacks one of them lacks the key. See [policy.All].
func Join(keys ...Key) Key { return policy.All(keys...) }

// FirstOf returns a Key of the first of several keys that the request has, such as a user's
// id or else the address. See [policy.First].
func FirstOf(keys ...Key) Key { return policy.First(keys...) }

// ClientIP configures how a client's address is found and how many addresses share a budget.
// The zero value takes the peer's address.
type ClientIP struct {
	// Trusted are the networks of the proxies whose Header is trusted. Without any, no
	// header is read.
	Trusted []netip.Prefix
	// Header is the field that these proxies set or append to: "X-Forwarded-For", which is
	// the default, "Forwarded" (RFC 7239), or a field with a single address, such as
	// "X-Real-IP" or "CF-Connecting-IP". The proxies must overwrite a single address; to a
	// list they append.
	Header string
	// Hops, from 1 to 16, is for proxies whose networks are not known: see ClientHops of
	// [evaluate.Options].
	Hops int
	// IPv4Bits and IPv6Bits are the prefix lengths of networks that share a budget: by
	// default 32, single addresses, and 64, the least that a customer gets.
	IPv4Bits, IPv6Bits int
}

// ByClientIP returns a Key of the client's address, found through trusted proxies: from the
// right of the header's addresses, the first that is not trusted, or the last valid one
// before one that cannot be parsed. A list's part that the client writes itself is to the
// left of that and is not read. If all keys find the address in the same way, use Trusted of
// [Options] with [ByIP].
//
// IPv4 addresses in IPv6 ones (mapped, NAT64, 6to4) count as IPv4.
func ByClientIP(o ClientIP) Key {
	finder, err := clientip.New(clientip.Options{
		Trusted: o.Trusted, Header: o.Header, Hops: o.Hops, IPv4Bits: o.IPv4Bits, IPv6Bits: o.IPv6Bits,
	})
	if err != nil {
		return policy.BadPart("client address", err)
	}
	return KeyFunc("client address", func(r *http.Request) (string, error) {
		addr, ok := finder.Client(r.RemoteAddr, r.Header)
		if !ok {
			return "", nil
		}
		return finder.Group(addr), nil
	})
}
