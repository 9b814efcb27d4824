// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// errorLog writes errors to the default logger, at most one a second: while a
// store is down every request has one.
type errorLog struct {
	last   atomic.Int64 // when one was written, in s since 1970
	unsaid atomic.Int64 // errors since then
}

func (l *errorLog) log(r *http.Request, err error, now time.Time) {
	last, second := l.last.Load(), now.Unix()
	if last == second || !l.last.CompareAndSwap(last, second) {
		l.unsaid.Add(1)
		return
	}
	slog.Default().ErrorContext(r.Context(), "rate limit store failed",
		slog.Any("error", err), slog.Int64("errors_not_logged", l.unsaid.Swap(0)))
}
