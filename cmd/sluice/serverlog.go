// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/sluicegate/sluice/internal/sampledlog"
)

// serverLog takes the lines that net/http writes. Anybody can make handshakes
// fail, as often as they like, so of these there is one line a second.
type serverLog struct {
	slog.Handler
	handshakes sampledlog.Log
}

// newServerLog returns what is behind an [http.Server]'s ErrorLog.
func newServerLog(to *slog.Logger) slog.Handler {
	return &serverLog{Handler: to.Handler(), handshakes: sampledlog.Log{Logger: to, Part: "listener"}}
}

// Handle logs a line.
func (l *serverLog) Handle(ctx context.Context, r slog.Record) error {
	if client, ok := strings.CutPrefix(r.Message, "http: TLS handshake error from "); ok {
		if strings.Contains(client, "proxyproto: header from") {
			return nil // the listener below tells of it
		}
		l.handshakes.Warn(ctx, "TLS handshake", errors.New(client))
		return nil
	}
	return l.Handler.Handle(ctx, r)
}
