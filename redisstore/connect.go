// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// The oldest versions with all commands that the scripts use.
const (
	oldestRedis  = 7
	oldestValkey = 8
)

// patience returns the time within which servers must return their versions.
func patience(o *Options) time.Duration { return max(o.Timeout, 5*time.Second) }

// checkServers asks every server for its version and settings. At least one must answer;
// others may be down.
func checkServers(ctx context.Context, t transport.Transport, log *slog.Logger) error {
	var faults []error
	answered := false
	for addr, res := range t.Info(ctx) {
		err := checkServer(ctx, addr, &res, log)
		if _, old := errors.AsType[*versionError](err); old {
			return err
		}
		answered = answered || err == nil
		faults = append(faults, err)
	}
	if answered {
		return nil
	}
	return errors.Join(faults...)
}

func checkServer(ctx context.Context, addr string, res *transport.Reply, log *slog.Logger) error {
	text, err := res.AsText()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", addr, err)
	}
	info := parseInfo(text)
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

var errNoWrites = errors.New("the server takes no writes: it is a replica, or loads its data")

// checkWrites returns an error if a single server takes no writes.
func checkWrites(ctx context.Context, t transport.Transport) error {
	for _, res := range t.Info(ctx) {
		text, err := res.AsText()
		if err != nil {
			return fmt.Errorf("ask the server for its role: %w", err)
		}
		if info := parseInfo(text); info["loading"] == "1" || info["role"] == "slave" || info["role"] == "replica" {
			return errNoWrites
		}
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

// versionError is the error for a server that is too old.
type versionError struct{ name, version, oldest string }

// Error returns the server's version and the oldest one that a Store needs.
func (e *versionError) Error() string {
	return fmt.Sprintf("the server is %s %q: a Store needs %s or later", e.name, e.version, e.oldest)
}

func checkVersion(info map[string]string) error {
	name, version, oldest := "Redis", info["redis_version"], oldestRedis
	if v, ok := info["valkey_version"]; ok {
		name, version, oldest = "Valkey", v, oldestValkey
	}
	first, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	if err != nil || major < oldest {
		return &versionError{name, version, fmt.Sprintf("Redis %d.0 or Valkey %d", oldestRedis, oldestValkey)}
	}
	return nil
}
