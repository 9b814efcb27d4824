// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/fleetview"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/peers"
	"github.com/sluicegate/sluice/server/internal/report"
)

// meetPeers makes this node exchange reports with the nodes that share its store.
func (s *server) meetPeers() {
	sh := s.store.shared
	if sh == nil {
		return
	}
	s.peers = peers.New(peers.Options{
		Conn: sh.Fleet(), Self: s.self, Live: sh.Live, Every: s.Intervals.Report,
		Report: func(rules []string) *report.Report {
			return s.runtime.tally.Report(s.runtime.activePolicy(), s.runtime.expiryNow(), rules)
		},
		Met: s.met,
	})
	sh.Fleet().Register(s.peers.Part())
	sh.OnLeave(s.peers.Leave)
}

// self returns the part of this node's reports that does not depend on the viewers.
func (s *server) self() report.Node {
	v, failure := s.watcher.Status()
	node := s.store.shared.Fleet().Node()
	n := report.Node{
		ID: node.ID, Name: node.Name, Version: programVersion(), Config: v.Hash, Rules: s.rulesHash(), Failed: failure != nil, StoreUp: s.store.up(),
		Started: s.started.UnixMilli(), Clock: time.Now().UnixMilli(), Total: s.runtime.tally.Total(),
	}
	c := s.runtime.active()
	if l := listenersOf(c); len(l) > 0 {
		n.Listen = l[0].Address
	}
	n.Upstream = upstreamsOf(c)
	n.Named = named(c.Policy)
	return n
}

// upstreamsOf returns the URLs and addresses of the upstreams in a short text.
func upstreamsOf(c *config.Config) string {
	var urls []string
	for i := range c.Upstreams {
		urls = append(urls, plainURL(c.Upstreams[i].URL))
	}
	for _, l := range listenersOf(c) {
		if l.TCP() {
			urls = append(urls, l.Upstream)
		}
	}
	if len(urls) == 0 {
		return "the sample app"
	}
	slices.Sort(urls)
	text := strings.Join(slices.Compact(urls), ", ")
	if len(text) > mostUpstreams { // reports hold short texts
		sum := sha256.Sum256([]byte(text))
		text = fmt.Sprintf("%s… (%x)", strings.ToValidUTF8(text[:mostUpstreams], ""), sum[:4])
	}
	return text
}

const mostUpstreams = 200 // bytes

// plainURL returns u in a form to compare, without its scheme's default port.
func plainURL(u *url.URL) string {
	plain := *u
	if port := map[string]string{"http": "80", "h2c": "80", "https": "443"}[u.Scheme]; port != "" {
		plain.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return strings.TrimSuffix(plain.Redacted(), "/")
}

// named returns the names of the rules with the smallest hashes, so that nodes that share many
// rules name some of the same.
func named(p *policy.Policy) (names []string) {
	for i := range len(p.Rules()) {
		names = append(names, p.Rules()[i].Name)
	}
	hash := func(name string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // it never fails
		return h.Sum64()
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(hash(a), hash(b)) })
	return names[:min(len(names), report.MostNamed)]
}

// met logs that other nodes use the names of this node's rules for requests to other
// upstreams: two services may share limits by mistake.
func (s *server) met(others *report.Fleet) {
	self := s.self()
	if text := fleetview.DifferentUpstreams(&self, others); text != "" && text != s.strangers {
		s.Log.Warn("the store is shared with another service", slog.String("nodes", text))
		s.strangers = text
	}
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
		last = &hashed{p, overview.RulesHash(p)}
		s.rules.Store(last)
	}
	return last.hash
}

// programVersion returns the version and revision of the program.
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
