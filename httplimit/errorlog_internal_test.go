// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestErrorLogWritesOnceASecond(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)

	var l errorLog
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	start := time.Unix(1_700_000_000, 0)
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 900 * time.Millisecond, time.Second} {
		l.log(r, errors.New("down"), start.Add(after))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "errors_not_logged=0") || !strings.Contains(lines[1], "error=down errors_not_logged=2") {
		t.Errorf("logged %q", lines)
	}
}
