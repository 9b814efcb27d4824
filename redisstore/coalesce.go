// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// Requests for one key under one plan stand in line while one of them is on its
// way to the server. When its answer is there, all that wait go together, in
// their order, as one call; each gets its own decision. So who finds no line
// waits for nobody, and a hot key costs one call per round trip.
const (
	lineShards = 64
	longest    = 1024 // waiting in one line; who finds more goes alone
	together   = 128  // in one call, so that no script runs long
)

// lines are the lines of a store.
type lines struct {
	seed   maphash.Seed
	shards [lineShards]lineShard
}

type lineShard struct {
	mu    sync.Mutex
	lines map[lineKey]*line
}

type lineKey struct {
	plan *sluice.Plan
	key  string
}

// line is the requests that wait for a call on one key.
type line struct{ waiting []*rider }

// rider is one request in a line.
type rider struct {
	job  job
	req  sluice.Request // a copy with room of its own: the caller may have left with his
	came time.Time
	err  error
	done chan struct{} // closed when job.decision or err is there
}

func (l *lines) init() {
	l.seed = maphash.MakeSeed()
	for i := range l.shards {
		l.shards[i].lines = make(map[lineKey]*line)
	}
}

func (l *lines) shard(k lineKey) *lineShard {
	return &l.shards[maphash.String(l.seed, k.key)%lineShards]
}

// coalesce decides a request for one key, alone or with others.
func (s *Store) coalesce(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	k := lineKey{req.Plan, req.Key}
	sh := s.lines.shard(k)
	sh.mu.Lock()
	ln := sh.lines[k]
	switch {
	case ln == nil:
		ln = &line{}
		sh.lines[k] = ln
		sh.mu.Unlock()
		defer s.next(sh, k, ln) //nolint:contextcheck // whose turn is next has a context of its own
		return s.alone(ctx, req)
	case len(ln.waiting) >= longest:
		sh.mu.Unlock()
		return s.alone(ctx, req)
	}
	r := &rider{req: *req, came: now(), done: make(chan struct{})}
	r.req.Outcomes = make([]sluice.Outcome, len(req.Outcomes))
	r.job = job{op: req.Op, req: &r.req}
	ln.waiting = append(ln.waiting, r)
	sh.mu.Unlock()
	select {
	case <-r.done:
		copy(req.Outcomes, r.req.Outcomes)
		return r.job.decision, r.err
	case <-ctx.Done():
		return sluice.Decision{}, s.leave(ctx, sh, ln, r)
	}
}

// alone decides a request by a call of its own.
func (s *Store) alone(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.direct(ctx, s.newCall(req), req)
}

// next serves those who wait in line, if any, and else ends it.
func (s *Store) next(sh *lineShard, k lineKey, ln *line) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(ln.waiting) == 0 {
		delete(sh.lines, k)
		return
	}
	s.pending.Add(1) // the caller is pending still: Close waits for both
	go s.serve(sh, k, ln)
}

// serve calls for those in line until it is empty.
func (s *Store) serve(sh *lineShard, k lineKey, ln *line) {
	defer s.pending.Done()
	for {
		sh.mu.Lock()
		n := s.company(ln.waiting)
		if n == 0 {
			delete(sh.lines, k)
			sh.mu.Unlock()
			return
		}
		riders := append([]*rider(nil), ln.waiting[:n]...)
		ln.waiting = append(ln.waiting[:0], ln.waiting[n:]...)
		sh.mu.Unlock()
		s.drive(riders)
	}
}

// company returns how many of those who wait go together: no more than a script
// should decide, and only such as have about as much time left as the first.
// When a call before has hung, others have more.
func (s *Store) company(waiting []*rider) int {
	n := min(len(waiting), together)
	for n > 1 && waiting[n-1].came.Sub(waiting[0].came) > s.slack() {
		n--
	}
	return n
}

// drive makes one call for riders and tells each what came of it.
func (s *Store) drive(riders []*rider) {
	// Who leaves meanwhile has no say: the call is the others' too. It ends when
	// the time of the first is over. The call before was made before that one
	// came, so it has ended by then, and nobody waits longer than the Timeout.
	ctx, cancel := s.until(context.Background(), riders[0].came.Add(s.options.Timeout))
	defer cancel()
	c := s.newCall(riders[0].job.req)
	for _, r := range riders {
		c.jobs = append(c.jobs, &r.job)
	}
	err := s.run(ctx, c)
	for _, r := range riders {
		r.err = err
		close(r.done)
	}
}

// leave takes r out of the line. If it has been sent already what came of it
// is lost, as it is when a connection breaks.
func (s *Store) leave(ctx context.Context, sh *lineShard, ln *line, r *rider) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i, other := range ln.waiting {
		if other == r {
			ln.waiting = append(ln.waiting[:i], ln.waiting[i+1:]...)
			break
		}
	}
	return ctx.Err()
}
