// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sampledlog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/sampledlog"
)

func TestOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := sampledlog.Log{Logger: slog.New(slog.NewTextHandler(&out, nil)), Part: "gateway"}
		for range 5 {
			log.Warn(t.Context(), "upstream", errors.New("refused"))
		}
		if got := strings.Count(out.String(), "\n"); got != 1 {
			t.Errorf("got %d lines within a second, want 1", got)
		}
		time.Sleep(time.Second)
		log.Warn(t.Context(), "upstream", errors.New("refused"))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := lines[len(lines)-1]; len(lines) != 2 || !strings.Contains(last, "unreported=4") {
			t.Errorf("got %q, want a second line that tells of 4 unreported", lines)
		}
	})
}
