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

// Requests for one key under one plan queue while a call for that key is in flight.
// When the call has returned, the whole queue is sent as one batch, in order, and each
// request gets a decision of its own. So a hot key costs one call per round trip.
//
// A request that finds no queue is sent at once. If the last batch of the key had more
// than one request, the goroutine that sends the next one yields first: callers that
// have just been answered, or come at the same moment, then join the batch. It yields
// again as long as the queue grows. A yield costs no more than one wake-up, and batches
// get three times as large.
const (
	queueShards = 64
	maxWaiting  = 1024 // requests in one queue; the next one is sent by itself
	maxBatch    = 128  // requests in one call, so that no script runs long
	maxYields   = 5    // before a batch is sent
)

// queues are the queues of a store.
type queues struct {
	seed   maphash.Seed
	began  time.Time
	shards [queueShards]queueShard
	idle   sync.Pool // of *waiter
}

type queueShard struct {
	mu     sync.Mutex
	queues map[queueKey]*queue
	shared uint64 // hash of the key whose last batch had several requests, 0 if none
	spare  *queue // an empty one for the next key, nil if there is none
}

type queueKey struct {
	plan *sluice.Plan
	key  string
}

// queue is the requests that wait for the call of one key.
type queue struct {
	hash    uint64
	waiting []*waiter
}

// waiter is one request in a queue.
type waiter struct {
	// The fields that the sender of a batch reads are adjacent: it mostly runs on another
	// processor.
	awaited[error]               // if the answer is nil, job.decision is set
	came           time.Duration // since the queues were made: half the cost of a Time
	job            job
	req            sluice.Request  // a copy, as the caller may return before it is decided
	outcomes       sluice.Outcomes // the outcomes of req
	hold           sluice.Hold     // the hold of req
}

func (l *queues) init() {
	l.seed, l.began = maphash.MakeSeed(), now()
	for i := range l.shards {
		l.shards[i].queues = make(map[queueKey]*queue)
	}
}

// waiter returns a waiter for a request.
func (l *queues) waiter(req *sluice.Request) *waiter {
	r, ok := l.idle.Get().(*waiter)
	if !ok {
		r = &waiter{awaited: awaited[error]{ready: make(chan error, 1)}}
	}
	r.req = *req
	if req.Outcomes != nil {
		n := len(*req.Outcomes)
		r.outcomes = slices.Grow(r.outcomes[:0], n)[:n]
		copy(r.outcomes, *req.Outcomes)
		r.req.Outcomes = &r.outcomes
	}
	if req.Hold != nil {
		r.hold = *req.Hold
		r.req.Hold = &r.hold
	}
	r.job = job{op: req.Op, req: &r.req}
	r.came = time.Since(l.began)
	r.state.Store(stays)
	return r
}

// release recycles a waiter to which nothing refers.
func (l *queues) release(r *waiter) {
	r.req = sluice.Request{}
	l.idle.Put(r)
}

// coalesce decides a request for one key, by a call of its own or in a batch.
func (s *Store) coalesce(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	k := queueKey{req.Plan, req.Key}
	hash := maphash.String(s.queues.seed, k.key)
	sh := &s.queues.shards[hash%queueShards]
	sh.mu.Lock()
	q := sh.queues[k]
	switch {
	case q == nil:
		if q = sh.spare; q == nil {
			q = new(queue)
		}
		sh.spare, q.hash = nil, hash
		sh.queues[k] = q
		if sh.shared != hash {
			sh.mu.Unlock()
			defer s.next(sh, k, q) //nolint:contextcheck // the next batch has a context of its own
			return s.alone(ctx, req)
		}
		s.start(sh, k, q) //nolint:contextcheck // the call is shared with others
	case len(q.waiting) >= maxWaiting:
		sh.mu.Unlock()
		return s.alone(ctx, req)
	}
	r := s.queues.waiter(req)
	q.waiting = append(q.waiting, r)
	sh.mu.Unlock()
	err, ok := r.wait(ctx)
	switch {
	case !ok:
		return sluice.Decision{}, s.cancelWaiter(ctx, sh, q, r)
	case err != nil:
		return sluice.Decision{}, err // an abandoned call may still refer to r
	}
	defer s.queues.release(r)
	if req.Outcomes != nil {
		copy(req.Outcomes.All(), r.req.Outcomes.All())
	}
	return r.job.decision, nil
}

// next sends the queue, or removes it if it is empty.
func (s *Store) next(sh *queueShard, k queueKey, q *queue) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(q.waiting) == 0 {
		sh.remove(k, q)
		return
	}
	s.start(sh, k, q)
}

// remove removes an empty queue.
func (sh *queueShard) remove(k queueKey, q *queue) {
	delete(sh.queues, k)
	sh.spare = q
}

// start sends a queue in a goroutine of its own. Close waits for it.
func (s *Store) start(sh *queueShard, k queueKey, q *queue) {
	s.work(func() { s.serve(sh, k, q) })
}

// serve sends batches until the queue is empty.
func (s *Store) serve(sh *queueShard, k queueKey, q *queue) {
	var batch []*waiter
	shared := false
	for {
		q.gather(sh)
		n := s.batchSize(q.waiting)
		if n == 0 {
			sh.remove(k, q)
			if shared {
				sh.shared = q.hash
			} else if sh.shared == q.hash {
				sh.shared = 0
			}
			sh.mu.Unlock()
			return
		}
		batch = append(batch[:0], q.waiting[:n]...)
		left := copy(q.waiting, q.waiting[n:])
		clear(q.waiting[left:])
		q.waiting = q.waiting[:left]
		sh.mu.Unlock()
		shared = n > 1
		s.sendBatch(batch)
	}
}

// gather yields until the queue grows no more, and returns with sh locked.
func (q *queue) gather(sh *queueShard) {
	before := 0
	for range maxYields {
		runtime.Gosched()
		sh.mu.Lock()
		n := len(q.waiting)
		if n == before {
			return
		}
		before = n
		sh.mu.Unlock()
	}
	sh.mu.Lock()
}

// batchSize returns the number of waiters for one call: at most maxBatch, and only those
// that have about as much time left as the first. After a call that hung, later waiters
// have more.
func (s *Store) batchSize(waiting []*waiter) int {
	n := min(len(waiting), maxBatch)
	for n > 1 && waiting[n-1].came-waiting[0].came > s.slack() {
		n--
	}
	return n
}

// sendBatch makes one call for all waiters and hands each its result. Then each waiter
// belongs to its caller again.
func (s *Store) sendBatch(batch []*waiter) {
	c := s.newCall(batch[0].job.req)
	c.jobs = make([]*job, len(batch))
	for i, r := range batch {
		c.jobs[i] = &r.job
	}
	err := s.runBy(s.queues.began.Add(batch[0].came+s.options.Timeout), c)
	for _, r := range batch {
		r.answer(s, err)
	}
	if err == nil {
		s.recycle(c)
	}
}

// runBy decides the call, or abandons it at the waiters' deadline. The previous call was
// sent before they came, so it has ended by then, and no caller waits longer than the
// Timeout. The client still reads the reply, so that a request that queued for long breaks
// no connection.
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

// cancelWaiter takes r out of the queue or, if it has been sent, lets it finish
// without its caller.
func (s *Store) cancelWaiter(ctx context.Context, sh *queueShard, q *queue, r *waiter) error {
	sh.mu.Lock()
	i := slices.Index(q.waiting, r)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	sh.mu.Unlock()
	if i >= 0 {
		s.queues.release(r)
		return &sluice.NotSentError{Err: ctx.Err()}
	}
	l := s.lateTake(ctx, &r.req)
	r.awaited.leave(s, func(ctx context.Context, err error) {
		if err != nil { // a call that timed out may still decide r
			l.answer(ctx, sluice.Decision{}, err)
		} else {
			l.answer(ctx, r.job.decision, nil)
		}
	})
	return l.gone
}
