// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "net/http"

// Observer is a ResponseWriter that wants to know that nobody saw the response to
// a request which may have been acted on.
type Observer interface{ Unseen() }

// Watcher is a ResponseWriter that wants to know that an upstream may still work on
// the request, though nobody waits for it.
type Watcher interface{ Running() }

// NotifyUnseen reports every [Observer] around w, found as [http.ResponseController]
// finds what it needs.
func NotifyUnseen(w http.ResponseWriter) { notify(w, Observer.Unseen) }

// NotifyRunning reports every [Watcher] around w.
func NotifyRunning(w http.ResponseWriter) { notify(w, Watcher.Running) }

func notify[T any](w http.ResponseWriter, what func(T)) {
	for {
		if o, ok := w.(T); ok {
			what(o)
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = u.Unwrap()
	}
}
