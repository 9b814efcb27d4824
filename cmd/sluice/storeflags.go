// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/failure"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/server/admin"
)

func (p *parser) setStore(line string) {
	target, err := redisurl.Parse(line, os.Getenv)
	if err != nil {
		p.fault("--store: %w", err)
		return
	}
	p.shared.target = target
}

func (p *parser) setFailure(name string) {
	policy, err := failure.ParsePolicy(name)
	if err != nil {
		p.fault("--failure %q: is no policy; write open, local or closed", name)
		return
	}
	p.shared.failure = policy
}

// checkStore settles what goes together with --store.
func (p *parser) checkStore() {
	if p.seen["store"] && p.state != "" {
		p.fault("--state: keeps what is in this process, and with --store nothing is; leave one out")
	}
	if p.seen["failure"] && !p.seen["store"] {
		p.fault("--failure: is about a shared store, and there is none; add --store redis://HOST")
	}
}

// openStore opens the store that decides.
func (s *server) openStore() (err error) {
	if s.shared.target == nil {
		s.store = memstore.New(memstore.Options{Now: s.now})
		s.metrics.WatchMemory(s.store.Stats)
		s.full = watchFull(s.store.Stats, 0, s.log)
		return nil
	}
	if s.redis, err = openShared(s.shared, s.log); err != nil {
		return err
	}
	s.metrics.WatchShared(s.redis.store.Stats, s.redis.denials.Stats)
	return nil
}

func (s *server) closeStore() error {
	s.full.close()
	if s.redis == nil {
		return nil
	}
	return s.redis.Close()
}

// decider returns the store that decides.
func (s *server) decider() sluice.Store {
	if s.redis != nil {
		return s.redis.store
	}
	return s.store
}

func (s *server) adminOptions() admin.Options {
	o := admin.Options{Ready: func() bool { return !s.doors.draining.Load() }, Metrics: s.metrics.Handler(), Hosts: s.adminHosts}
	if s.redis != nil {
		o.Store = s.redis.ready
	}
	return o
}
