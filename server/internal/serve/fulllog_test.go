// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestFullLog: a full memory is logged once a minute while living keys are evicted, and never
// while none is.
func TestFullLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Buffer
		store := memstore.New(memstore.Options{MaxKeys: 100})
		lim, err := sluice.New(store, "s", sluice.PerDay(5))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go logFull(ctx, store.Stats, 100, 10*time.Second, slog.New(slog.NewTextHandler(&out, nil)))
		n := 0
		take := func(keys int) {
			for range keys {
				n++
				if _, err := lim.Take(t.Context(), fmt.Sprint(n), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, tt := range []struct {
			name  string
			keys  int
			pause time.Duration
			lines int
			want  string
		}{
			{"there is room", 100, time.Minute, 0, ""},
			{"full", 7, 11 * time.Second, 1, "forgotten=7 max_keys=100"},
			{"within the minute", 20, 11 * time.Second, 1, "forgotten=7"},
			{"a minute later", 0, time.Minute, 2, "forgotten=20"},
			{"nothing new", 0, 10 * time.Minute, 2, "forgotten=20"},
		} {
			take(tt.keys)
			time.Sleep(tt.pause)
			synctest.Wait()
			lines := strings.Split(out.String(), "\n")
			if len(lines)-1 != tt.lines || !strings.Contains(strings.Join(lines, ""), tt.want) {
				t.Errorf("%s: got %q, want %d lines, the last with %q", tt.name, lines, tt.lines, tt.want)
			}
		}
	})
}
