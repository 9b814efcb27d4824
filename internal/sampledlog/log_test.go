// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sampledlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
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
			t.Errorf("got %q, want a second line that reports 4 unreported", lines)
		}
	})
}

// logged returns the lines logged by f and for a while after it.
func logged(t *testing.T, f func(*sampledlog.Log)) (lines []string) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		f(&sampledlog.Log{Logger: slog.New(slog.NewTextHandler(&out, nil)), Part: "gateway"})
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// TestEndOfFlood: the number of lines left out is logged also if no more come.
func TestEndOfFlood(t *testing.T) {
	lines := logged(t, func(log *sampledlog.Log) {
		for i := range 100 {
			log.Warn(t.Context(), "upstream", fmt.Errorf("refused %d", i))
		}
	})
	if len(lines) != 2 || !strings.Contains(lines[0], `error="refused 0" unreported=0`) || !strings.Contains(lines[1], `error="refused 99" unreported=98`) {
		t.Errorf("got %q, want the first and the last of 100, with 98 unreported", lines)
	}
}

// TestLongLines: long texts from clients are cut.
func TestLongLines(t *testing.T) {
	lines := logged(t, func(log *sampledlog.Log) {
		log.Warn(t.Context(), "TLS handshake", errors.New(strings.Repeat("ü", 30_000)))
	})
	if len(lines) != 1 || len(lines[0]) > 1000 || !strings.Contains(lines[0], "ü…") {
		t.Errorf("got %d lines, the first of %d bytes: %.200s", len(lines), len(lines[0]), lines[0])
	}
}

// TestProblemsApart: the flood of one problem does not hide another, and an error keeps its
// level.
func TestProblemsApart(t *testing.T) {
	lines := logged(t, func(log *sampledlog.Log) {
		for range 100 {
			log.Warn(t.Context(), "upstream", errors.New("refused"))
		}
		log.Error(t.Context(), "panic", errors.New("nil"))
	})
	if len(lines) != 3 || !strings.Contains(lines[1], `level=ERROR msg=panic part=gateway error=nil unreported=0`) {
		t.Errorf("got %q, want a line of the panic among those of the upstream", lines)
	}
}

// TestManyProblems: the memory and the lines are bounded for any number of problems.
func TestManyProblems(t *testing.T) {
	const problems = 10_000
	lines := logged(t, func(log *sampledlog.Log) {
		for i := range problems {
			log.Warn(t.Context(), fmt.Sprint("problem ", i), errors.New("x"))
		}
	})
	if len(lines) > 66 {
		t.Fatalf("got %d lines, want 66", len(lines))
	}
	reported := len(lines)
	for _, line := range lines {
		_, n, _ := strings.Cut(line, "unreported=")
		skipped, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		reported += skipped
	}
	if reported != problems {
		t.Errorf("reported %d, want %d", reported, problems)
	}
}
