// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "net/http"

// Observer is a ResponseWriter that is notified if the request may have been executed and its
// response was not seen.
type Observer interface{ Unseen() }

// Watcher is a ResponseWriter that is notified if an upstream may still process the request
// although its client has left.
type Watcher interface{ Running() }

// NotifyUnseen notifies every [Observer] around w, found by Unwrap as in
// [http.ResponseController].
func NotifyUnseen(w http.ResponseWriter) { notify(w, Observer.Unseen) }

// NotifyRunning notifies every [Watcher] around w.
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
