// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/explain"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/page"
)

// adminHandler returns the handler of the operators' pages. Where everybody may read them, it
// leaves out the pages that show keys.
func (s *server) adminHandler(overrides *overrides.List) (http.Handler, error) {
	c := &s.Config.Admin
	token, err := ReadToken(c.TokenFile)
	if err != nil {
		return nil, err
	}
	o := admin.Options{
		Ready: func() bool { return !s.listeners.draining.Load() }, Store: s.store.ready,
		Config: s.readyLine, Problems: s.problems, Metrics: s.metrics.Handler(), Hosts: adminHosts(c),
	}
	if token != "" || !c.Public {
		api := admin.APIOptions{
			Policy: s.runtime.activePolicy, Store: s.runtime.store, Slots: s.runtime.slots, Shared: s.store.shared != nil,
			Tally: &s.runtime.tally, Version: s.watcher.Status, Overrides: overrides,
			System: s.system, State: s.state, Logs: s.faultyLogs, Decisions: s.runtime.lastDecisions,
			Audit: s.audit, Explains: s.store.store, At: func(q *explain.Request) (*policy.Policy, func(netip.Addr) bool, error) {
				return rulesAt(s.runtime.active(), q)
			}, Claims: s.runtime.claims, Token: token, Now: s.runtime.expiryNow, Hosts: o.Hosts,
			Every: s.Intervals.Tick,
		}
		if s.peers != nil {
			api.Fleet, api.Self = s.peers.Reports, s.self
		}
		if s.api, err = admin.NewAPI(api); err != nil {
			return nil, err
		}
		o.API = s.api
		if o.Page, err = page.Handler(); err != nil {
			return nil, err
		}
	}
	return admin.Handler(o), nil
}

// problems returns the problems of recent requests and of logs.
func (s *server) problems() []overview.Problem {
	counts := &s.runtime.tally
	counts.Tick(s.runtime.expiryNow())
	recent, _, _ := counts.Past("")
	return overview.Problems(recent.Sum(), counts.Causes(), s.faultyLogs())
}

// faultyLogs returns the logs that cannot be written.
func (s *server) faultyLogs() (all []overview.Log) {
	for _, l := range s.runtime.logs.all() {
		if f := l.file.Load(); f != nil && f.Fault() != nil {
			all = append(all, overview.Log{Name: l.name, Fault: f.Fault()})
		}
	}
	if err := s.audit.Fault(); err != nil {
		all = append(all, overview.Log{Name: "audit log, so that changes are refused,", Fault: err})
	}
	return all
}

// adminHosts returns the host names that the admin address answers to: the listed ones and its
// own.
func adminHosts(c *config.Admin) []string {
	host, _, _ := net.SplitHostPort(c.Address) // empty if it is off, or the default
	if own, err := config.ParseAdminHost(host); err == nil {
		return append(slices.Clone(c.Hosts), own)
	}
	return c.Hosts
}

// readyLine returns the active configuration, the failure of the last reload and the faults of
// certificates.
func (s *server) readyLine() string {
	v, failure := s.watcher.Status()
	line := fmt.Sprintf("config: %s, version %s, active since %s", v.File, v.Hash, v.Loaded.UTC().Format(time.RFC3339))
	if failure != nil {
		line += "; its last reload failed:\n" + failure.Error()
	}
	return line + s.listeners.certificateLines(time.Now())
}

// Limits of a secret and of its file, in bytes.
const (
	leastToken = 16
	mostToken  = 1 << 20
)

// ReadToken returns the admin's token from a file, or "" if name is empty.
func ReadToken(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return readSecret("token file", name)
}

// readSecret returns the secret in a file.
func readSecret(what, name string) (string, error) {
	data, _, err := regular.Read(name, mostToken)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < leastToken {
		return "", fmt.Errorf("%s %s: %d bytes can be guessed; use %d or more, such as those of openssl rand -hex 32", what, name, len(secret), leastToken)
	}
	return secret, nil
}
