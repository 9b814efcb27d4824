// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "net/http"

// Observer is a ResponseWriter that wants to know that nobody saw the response to
// a request which may have been acted on.
type Observer interface{ Unseen() }

// TellUnseen tells every [Observer] around w, found as [http.ResponseController]
// finds what it needs.
func TellUnseen(w http.ResponseWriter) {
	for {
		if o, ok := w.(Observer); ok {
			o.Unseen()
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = u.Unwrap()
	}
}
