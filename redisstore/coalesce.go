// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// Requests for one key under one plan stand in line while one of them is on its
// way to the server. When its answer is there, all that wait go together, in
// their order, as one call; each gets its own decision. So a hot key costs one
// call per round trip.
//
// Who finds no line goes at once, alone. Only where the key had company in its
// last line the first one lets those go before that are ready to run: who has
// just been answered and asks again, or has come at the same moment. It does so
// again as long as that lengthens the line. Each time costs no more than being
// woken once, and together they make a third of the calls.
const (
	lineShards = 64
	longest    = 1024 // waiting in one line; who finds more goes alone
	together   = 128  // in one call, so that no script runs long
	gatherings = 5    // times that others are let go before, at most
)

// lines are the lines of a store.
type lines struct {
	seed   maphash.Seed
	shards [lineShards]lineShard
	idle   sync.Pool // of *rider
}

type lineShard struct {
	mu     sync.Mutex
	lines  map[lineKey]*line
	shared uint64 // hash of the key whose line last had company, 0 if none
}

type lineKey struct {
	plan *sluice.Plan
	key  string
}

// line is the requests that wait for a call on one key.
type line struct {
	hash    uint64
	waiting []*rider
}

// rider is one request in a line.
type rider struct {
	job            job
	req            sluice.Request  // a copy with room of its own: the caller may have left with his
	outcomes       sluice.Outcomes // that room
	came           time.Time
	awaited[error] // when it is nil, job.decision is there
}

func (l *lines) init() {
	l.seed = maphash.MakeSeed()
	for i := range l.shards {
		l.shards[i].lines = make(map[lineKey]*line)
	}
}

// rider returns one that is ready to stand in line.
func (l *lines) rider(req *sluice.Request) *rider {
	r, ok := l.idle.Get().(*rider)
	if !ok {
		r = &rider{awaited: awaited[error]{ready: make(chan error, 1)}}
	}
	r.req = *req
	if req.Outcomes != nil {
		n := len(*req.Outcomes)
		r.outcomes = slices.Grow(r.outcomes[:0], n)[:n]
		copy(r.outcomes, *req.Outcomes)
		r.req.Outcomes = &r.outcomes
	}
	r.job = job{op: req.Op, req: &r.req}
	r.came = now()
	r.state.Store(stays)
	return r
}

// release takes back a rider that nobody knows any more.
func (l *lines) release(r *rider) {
	r.req = sluice.Request{}
	l.idle.Put(r)
}

// coalesce decides a request for one key, alone or with others.
func (s *Store) coalesce(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	k := lineKey{req.Plan, req.Key}
	hash := maphash.String(s.lines.seed, k.key)
	sh := &s.lines.shards[hash%lineShards]
	sh.mu.Lock()
	ln := sh.lines[k]
	switch {
	case ln == nil:
		ln = &line{hash: hash}
		sh.lines[k] = ln
		if sh.shared != hash {
			sh.mu.Unlock()
			defer s.next(sh, k, ln) //nolint:contextcheck // whose turn is next has a context of its own
			return s.alone(ctx, *req)
		}
		s.start(sh, k, ln) //nolint:contextcheck // the call is the others' too
	case len(ln.waiting) >= longest:
		sh.mu.Unlock()
		return s.alone(ctx, *req)
	}
	r := s.lines.rider(req)
	ln.waiting = append(ln.waiting, r)
	sh.mu.Unlock()
	err, ok := r.wait(ctx)
	switch {
	case !ok:
		return sluice.Decision{}, s.leave(ctx, sh, ln, r)
	case err != nil:
		return sluice.Decision{}, err // a call that was given up may still know r
	}
	defer s.lines.release(r)
	copy(req.Outcomes.All(), r.req.Outcomes.All())
	return r.job.decision, nil
}

// next serves those who wait in line, if any, and else ends it.
func (s *Store) next(sh *lineShard, k lineKey, ln *line) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(ln.waiting) == 0 {
		delete(sh.lines, k)
		return
	}
	s.start(sh, k, ln)
}

// start has a line served, for somebody who is pending still: Close waits for
// both.
func (s *Store) start(sh *lineShard, k lineKey, ln *line) {
	s.work(func() { s.serve(sh, k, ln) })
}

// serve calls for those in line until it is empty.
func (s *Store) serve(sh *lineShard, k lineKey, ln *line) {
	var riders []*rider
	company := false
	for {
		ln.gather(sh)
		n := s.company(ln.waiting)
		if n == 0 {
			delete(sh.lines, k)
			if company {
				sh.shared = ln.hash
			} else if sh.shared == ln.hash {
				sh.shared = 0
			}
			sh.mu.Unlock()
			return
		}
		riders = append(riders[:0], ln.waiting[:n]...)
		left := copy(ln.waiting, ln.waiting[n:])
		clear(ln.waiting[left:])
		ln.waiting = ln.waiting[:left]
		sh.mu.Unlock()
		company = n > 1
		s.drive(riders)
	}
}

// gather lets others go before, and returns with sh locked.
func (ln *line) gather(sh *lineShard) {
	before := 0
	for range gatherings {
		runtime.Gosched()
		sh.mu.Lock()
		n := len(ln.waiting)
		if n == before {
			return
		}
		before = n
		sh.mu.Unlock()
	}
	sh.mu.Lock()
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

// drive makes one call for riders and tells each what came of it. Then they are
// their callers' again.
func (s *Store) drive(riders []*rider) {
	c := s.newCall(riders[0].job.req)
	c.jobs = make([]*job, len(riders))
	for i, r := range riders {
		c.jobs[i] = &r.job
	}
	err := s.runBy(riders[0].came.Add(s.options.Timeout), c)
	for _, r := range riders {
		r.answer(s, err)
	}
}

// runBy decides the call, or gives it up at a deadline, which is that of riders.
// The call before was made before they came, so it has ended by then, and nobody
// waits longer than the Timeout. The client goes on listening, so that no
// connection breaks for those who have stood in line for long.
func (s *Store) runBy(deadline time.Time, c *call) error {
	if deadline.Sub(now()) >= s.options.Timeout-s.slack() {
		return s.run(s.bound(), c)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return &sluice.NotSentError{Err: err}
	}
	a := begin(s.bound(), s, func(ctx context.Context) error { return s.run(ctx, c) })
	err, ok := a.wait(ctx)
	if !ok {
		a.leave(s, func(context.Context, error) {})
		return ctx.Err()
	}
	return err
}

// leave takes r out of the line or, if it has been sent already, lets it go on
// without its caller.
func (s *Store) leave(ctx context.Context, sh *lineShard, ln *line, r *rider) error {
	sh.mu.Lock()
	i := slices.Index(ln.waiting, r)
	if i >= 0 {
		ln.waiting = slices.Delete(ln.waiting, i, i+1)
	}
	sh.mu.Unlock()
	if i >= 0 {
		s.lines.release(r)
		return &sluice.NotSentError{Err: ctx.Err()}
	}
	l := s.lateTake(ctx, &r.req)
	r.awaited.leave(s, func(ctx context.Context, err error) {
		if err != nil { // a call that was given up may still decide r
			l.answer(ctx, sluice.Decision{}, err)
		} else {
			l.answer(ctx, r.job.decision, nil)
		}
	})
	return l.gone
}
