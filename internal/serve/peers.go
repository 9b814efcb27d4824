// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/sluicegate/sluice/internal/server/admin"
	"github.com/sluicegate/sluice/internal/server/peers"
	"github.com/sluicegate/sluice/internal/server/report"
	"github.com/sluicegate/sluice/policy"
)

// meetPeers has this node report to those that share its store, and read what they do.
func (s *server) meetPeers() {
	sh := s.store.shared
	if sh == nil {
		return
	}
	s.peers = peers.New(peers.Options{
		Conn: sh.fleet, Self: s.self, Live: sh.nodes.Load, Every: s.Intervals.Report,
		Report: func(rules []string) *report.Report {
			return admin.ReportOf(&s.runtime.tally, s.runtime.activePolicy(), s.runtime.expiryNow(), rules)
		},
	})
	sh.fleet.Register(s.peers.Part())
	sh.leaving = s.peers.Leave
}

// self returns what this node always reports.
func (s *server) self() report.Node {
	v, failure := s.watcher.Status()
	node := s.store.shared.fleet.Node()
	n := report.Node{
		ID: node.ID, Name: node.Name, Version: programVersion(), Config: v.Hash, Rules: s.rulesHash(), Failed: failure != nil, StoreUp: s.store.up(),
		Started: s.started.UnixMilli(), Clock: time.Now().UnixMilli(), Total: s.runtime.tally.Total(),
	}
	if c, _ := s.runtime.active(); len(listenersOf(c)) > 0 {
		n.Listen = listenersOf(c)[0].Address
	}
	return n
}

// hashed is a policy with the hash of its rules.
type hashed struct {
	policy *policy.Policy
	hash   string
}

// rulesHash returns the hash of the active rules.
func (s *server) rulesHash() string {
	p := s.runtime.activePolicy()
	last := s.rules.Load()
	if last == nil || last.policy != p {
		last = &hashed{p, admin.RulesHash(p)}
		s.rules.Store(last)
	}
	return last.hash
}

// programVersion returns what the program was built from, in a few words.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && version == "(devel)" {
			version += " " + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return version
}

// goAway notifies the other nodes that this one ends, within lastTimeout.
func (s *sharedStore) goAway(ctx context.Context) {
	if s.leaving == nil || !s.up() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	_ = s.leaving(ctx) // without it they notice some seconds later
}
