// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"

	"github.com/sluicegate/sluice/policy"
)

// KeyFunc returns a key that calls f, which must be safe for concurrent use. The name is for
// error texts: "session", "device id". If the request lacks the key, f returns "". For another
// fault of the client it returns a [*policy.PartError] with a Problem such as "is not signed".
// Any other error is treated as a store error.
func KeyFunc(name string, f func(*http.Request) (string, error)) policy.Part {
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

// ByPattern returns a key of the [http.ServeMux] pattern that matched, such as
// "GET /users/{id}". Only a Middleware around a handler that is registered in the mux knows
// it; around the mux itself use [ByRoute].
func ByPattern() policy.Part {
	return KeyFunc("route", func(r *http.Request) (string, error) { return r.Pattern, nil })
}

// ByRoute returns a key of the pattern under which mux would serve the request.
// A request without a pattern in mux lacks the key.
func ByRoute(mux *http.ServeMux) policy.Part {
	if mux == nil {
		return KeyFunc("route", nil)
	}
	return KeyFunc("route", func(r *http.Request) (string, error) {
		_, pattern := mux.Handler(r)
		return pattern, nil
	})
}
