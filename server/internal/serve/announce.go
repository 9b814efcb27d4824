// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/lint"
)

// announce prints the listeners, the limits, and a command that tries them.
func (s *server) announce() {
	var b strings.Builder
	urls := make([]string, len(s.Config.Upstreams))
	for i, u := range s.Config.Upstreams {
		urls[i] = strings.TrimSpace(u.Host + u.Path + " " + u.URL.String())
	}
	for _, o := range s.listeners.open {
		fmt.Fprintf(&b, "sluice: %s\n", o.describe(strings.Join(urls, ", ")))
	}
	const most = 20
	p := s.runtime.activePolicy()
	for i := range min(len(p.Rules()), most) {
		r := &p.Rules()[i]
		for _, l := range r.Levels {
			for _, limit := range l.Limits {
				says := lint.Worst(r, limit.Limit)
				limit.Limit = r.Counted(limit.Limit)
				fmt.Fprintf(&b, "  rule   %s%s: %v: %s\n", r.Name, byText(l.By), limit, says)
			}
		}
	}
	if len(p.Rules()) > most {
		fmt.Fprintf(&b, "  and %d rules more; see sluice lint %s\n", len(p.Rules())-most, s.Config.File)
	}
	if sh := s.store.shared; sh != nil {
		fmt.Fprintf(&b, "  store  %v; while it is unavailable %s\n", sh.Target(), sh.Meanwhile())
	}
	if at := s.listeners.adminSocket; at != nil {
		pages := "/metrics, /healthz, /readyz"
		if s.api != nil {
			pages += ", /policy; see sluice status"
		}
		fmt.Fprintf(&b, "  admin  http://%s%s\n", at.Addr(), pages)
	}
	if o := s.listeners.open[0]; o.kind.Name == "proxy" && len(p.Rules()) > 0 && p.Rules()[0].Match.MatchesAll() {
		fmt.Fprintf(&b, "  try    %s\n", s.curl(o.url(), &p.Rules()[0]))
	}
	changes := "a change needs a restart"
	if s.rereads() {
		changes = "changes take effect within a second"
	}
	fmt.Fprintf(&b, "  config from %s, version %s; %s\n", s.Config.File, s.Config.Version, changes)
	if at := s.listeners.adminSocket; at != nil && s.api != nil {
		fmt.Fprintf(&b, "  page   http://%s/  live: what is allowed and denied, and why\n", at.Addr())
	}
	if _, err := io.WriteString(s.Out, b.String()); err != nil {
		s.Log.Warn("standard output cannot be written", slog.Any("error", err)) // this does not stop the server
	}
}

// byText returns the parts of a key.
func byText(by []policy.Part) string {
	if len(by) == 0 {
		return ""
	}
	names := make([]string, len(by))
	for i, p := range by {
		names[i] = p.String()
	}
	return " by " + strings.Join(names, ", ")
}

// curl returns a command whose request has a key of r.
func (s *server) curl(front string, r *policy.Rule) string {
	path, query, flags := "/", []string(nil), ""
	for _, l := range r.Levels {
		for _, p := range l.By {
			switch n, err := strconv.Atoi(p.Name); {
			case p.Source == source.Header:
				flags += "-H '" + p.Name + ": u1' "
			case p.Source == source.Cookie:
				flags += "-b '" + p.Name + "=u1' "
			case p.Source == source.Query:
				query = append(query, url.QueryEscape(p.Name)+"=u1")
			case p.Source == source.Path && err == nil && n <= 16:
				path = "/" + strings.Repeat("x/", max(n, strings.Count(path, "/")-1))
			}
		}
	}
	if len(s.Config.Upstreams) == 0 && !slices.Contains(query, "userId=u1") {
		query = append(query, "userId=u1")
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return "curl -i " + flags + "'" + front + path + "'"
}
