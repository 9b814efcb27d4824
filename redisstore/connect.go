// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// The oldest versions with all commands that the scripts use.
const (
	oldestRedis  = 7
	oldestValkey = 8
)

// patience returns the time within which servers must return their versions.
func patience(o *Options) time.Duration { return max(o.Timeout, 5*time.Second) }

// CheckServers asks every server of a [Client] for its version and settings, and returns an
// error if one is older than Redis 7.0 or Valkey 8, or if none answers; others may be down.
// It logs a warning for a server that may evict states. [New] calls it. It returns when ctx
// ends.
func CheckServers(ctx context.Context, client Client, log *slog.Logger) error {
	texts, err := client.Info(ctx)
	for addr, text := range texts {
		if err := checkServer(ctx, addr, parseInfo(text), log); err != nil {
			return err
		}
	}
	if err != nil && len(texts) == 0 {
		return fmt.Errorf("ask the server for its version: %w", err)
	}
	return nil
}

func checkServer(ctx context.Context, addr string, info map[string]string, log *slog.Logger) error {
	if err := checkVersion(info); err != nil {
		return err
	}
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		log.LogAttrs(ctx, slog.LevelWarn,
			"the server may forget limits when its memory is full: set maxmemory-policy to noeviction or volatile-ttl",
			slog.String("server", addr), slog.String("maxmemory_policy", policy))
	}
	return nil
}

func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

func checkVersion(info map[string]string) error {
	name, version, oldest := "Redis", info["redis_version"], oldestRedis
	if v, ok := info["valkey_version"]; ok {
		name, version, oldest = "Valkey", v, oldestValkey
	}
	first, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	if err != nil || major < oldest {
		return fmt.Errorf("the server is %s %q: a Store needs Redis %d.0 or Valkey %d or later", name, version, oldestRedis, oldestValkey)
	}
	return nil
}
