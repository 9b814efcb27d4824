// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/sluicegate/sluice/policy"
)

// mostKept is how much of a body is read while its request is held back.
const mostKept = 64 << 10 // bytes

var errBody = &policy.PartError{Part: policy.Func("the request's body", nil), Problem: "cannot be read"}

// onHold watches a request that is held back: its body ends the wait if that
// cannot be read.
func (m *Middleware) onHold(ctx context.Context, a policy.Attributes) (context.Context, func()) {
	of, ok := a.(*attributes)
	if !ok {
		return ctx, func() {}
	}
	held, cancel := context.WithCancelCause(ctx)
	ahead := of.of.readAhead(func() { cancel(errBody) })
	return held, func() {
		if ahead != nil {
			ahead.over()
		}
		cancel(nil)
	}
}

// ahead is a body that is read while its request is held back. net/http finds
// out that a client of HTTP/1 has hung up only where somebody reads what it
// sends: the body or, once that has ended, net/http itself. So a client is seen
// to be gone as long as it has not sent more than mostKept bytes of a body.
// One that has is noticed after the wait.
type ahead struct {
	body   io.ReadCloser
	length int64         // of the body; negative: not known
	broken func()        // called when it cannot be read on
	done   chan struct{} // closed when nothing is read ahead any more

	mu   sync.Mutex
	stop bool // the wait is over
	kept []byte
	came int64 // bytes, in all
	err  error // how the body ended
}

// readAhead begins to read the request's body, which is what comes back from
// then on. It returns nil where there is no need: HTTP/2 has a client's leave
// told by the connection.
func (q *Request) readAhead(broken func()) *ahead {
	if q.r.ProtoMajor >= 2 || q.r.Body == nil || q.r.Body == http.NoBody || q.r.ContentLength == 0 {
		return nil
	}
	a := &ahead{length: q.r.ContentLength, broken: broken, done: make(chan struct{})}
	put := func(body io.ReadCloser) io.ReadCloser {
		a.body = body
		return a
	}
	if q.w == nil {
		copied := *q.r // the caller's keeps its body
		copied.Body = put(q.r.Body)
		q.r = &copied
	} else {
		q.exchange().Body().Wrap(put)
	}
	go a.run()
	return a
}

// run reads until the body ends, the bound is reached or, one Read later, the
// wait is over. That Read may block as long as the client sends nothing: as long
// as any other reader of the body would, and net/http waits for both.
func (a *ahead) run() {
	defer close(a.done)
	read := make([]byte, 4<<10)
	for {
		n, err := a.body.Read(read)
		if a.take(read[:n], err) {
			return
		}
	}
}

// take keeps what was read. It reports whether no more is to be.
func (a *ahead) take(b []byte, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept, a.came = append(a.kept, b...), a.came+int64(len(b))
	if errors.Is(err, io.EOF) && a.length >= 0 && a.came != a.length {
		err = io.ErrUnexpectedEOF
	}
	if a.err = err; err != nil && !errors.Is(err, io.EOF) {
		a.broken()
	}
	// One byte more than is kept tells a body that is as large from a larger one.
	return err != nil || a.stop || len(a.kept) > mostKept
}

// over says that the wait is over.
func (a *ahead) over() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = true
}

// Read returns what was read ahead, and then what follows.
func (a *ahead) Read(p []byte) (int, error) {
	n, err := a.next(p)
	if n == 0 && err == nil && len(p) > 0 {
		<-a.done // what is being read comes first
		if n, err = a.next(p); n == 0 && err == nil {
			return a.body.Read(p)
		}
	}
	return n, err
}

// next returns what is kept or, behind that, how the body ended.
func (a *ahead) next(p []byte) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) == 0 {
		a.kept = nil
		return 0, a.err
	}
	n = copy(p, a.kept)
	a.kept = a.kept[n:]
	return n, nil
}

// Close closes the body.
func (a *ahead) Close() error { return a.body.Close() }
