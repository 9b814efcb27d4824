// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"errors"
	"log" //nolint:depguard // lines of other packages are taken over
	"log/slog"
	"strings"

	"github.com/sluicegate/sluice/internal/sampledlog"
)

// serverLog samples the lines that net/http writes: one a second of each kind, as anybody can
// cause some of them at will.
type serverLog struct {
	slog.Handler // of the lines' level
	lines        sampledlog.Log
}

// serverLines maps the beginning of a net/http line to its kind in the log. A line that a
// client alone can cause is no error. The list is fixed, as clients choose a part of the
// lines.
var serverLines = [...]struct {
	begins, problem string
	client          bool
}{
	{"Unsolicited response received on idle HTTP channel ", "upstream: answer without a request", true},
	{"http: TLS handshake error from ", "TLS handshake", true},
	{"http: Accept error: ", "accept", false},
	{"http: panic serving ", "panic serving", false},
	{"http: superfluous response.WriteHeader ", "superfluous response.WriteHeader", false},
	{"http2: server connection error from ", "http2: server connection error", true},
	{"http2: server closing client connection: ", "http2: server closing client connection", true},
	{"http2: server: error reading preface from client ", "http2: no preface", true},
	{"http2: received GOAWAY ", "http2: received GOAWAY", true},
	{"http2: panic serving ", "panic serving", false},
	{"timeout waiting for SETTINGS frames from ", "http2: no settings", true},
	{"timeout waiting for PING response", "http2: no answer to a ping", true},
}

// TakeStandardLog samples the lines written by package log, too: there the client of net/http
// logs unsolicited responses of upstreams.
func TakeStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(ErrorLog(to).Writer())
}

// ErrorLog returns the ErrorLog of an [http.Server].
func ErrorLog(to *slog.Logger) *log.Logger {
	return slog.NewLogLogger(&serverLog{Handler: to.Handler(), lines: sampledlog.Log{Logger: to, Part: "listener"}}, slog.LevelError)
}

// Handle logs a line.
func (l *serverLog) Handle(ctx context.Context, r slog.Record) error {
	for _, kind := range &serverLines {
		text, ok := strings.CutPrefix(r.Message, kind.begins)
		switch {
		case !ok:
			continue
		case kind.client:
			l.lines.Warn(ctx, kind.problem, errors.New(text))
		default:
			l.lines.Error(ctx, kind.problem, errors.New(text))
		}
		return nil
	}
	l.lines.Error(ctx, "server", errors.New(r.Message))
	return nil
}
