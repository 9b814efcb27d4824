// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// deadlineStep is what happens to a connection at a moment of the test below.
type deadlineStep struct {
	at    time.Duration
	what  string        // read, write, set reads, set writes, set both, send, receive
	until time.Duration // of a deadline, from the begin; 0: none; negative: long past
}

// runDeadlines returns what calls on a connection have returned, and when, by the steps.
func runDeadlines(steps []deadlineStep, wrap func(net.Conn) net.Conn) (log []string) {
	began := time.Now()
	near, far := net.Pipe()
	c := wrap(near)
	out := make(chan string, 2*len(steps))
	busy := make(map[string]*atomic.Bool) // one call at a time: in a pipe others wait by no means that a bubble knows
	for _, what := range []string{"read", "write", "send", "receive"} {
		busy[what] = new(atomic.Bool)
	}
	for i, s := range steps {
		time.Sleep(s.at - time.Since(began))
		synctest.Wait()
		deadline := time.Time{}
		switch {
		case s.until < 0:
			deadline = time.Unix(1, 0)
		case s.until > 0:
			deadline = began.Add(s.until)
		}
		call := func(who io.ReadWriter, reads bool) {
			if busy[s.what].Swap(true) {
				return
			}
			go func() {
				defer busy[s.what].Store(false)
				p := make([]byte, 3)
				f := who.Write
				if reads {
					f = who.Read
				}
				n, err := f(p)
				out <- fmt.Sprintf("%v: %d %s: %d bytes, late %v, closed %v", time.Since(began), i, s.what, n,
					errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.ErrClosedPipe))
			}()
		}
		var err error
		switch s.what {
		case "read", "write":
			call(c, s.what == "read")
		case "send", "receive":
			call(far, s.what == "receive")
		case "set reads":
			err = c.SetReadDeadline(deadline)
		case "set writes":
			err = c.SetWriteDeadline(deadline)
		default:
			err = c.SetDeadline(deadline)
		}
		if err != nil {
			out <- err.Error()
		}
		synctest.Wait()
		log = append(log, drainDeadlines(out)...)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	log = append(log, drainDeadlines(out)...)
	_ = near.Close() // a pipe returns no error
	synctest.Wait()
	return append(log, drainDeadlines(out)...)
}

func drainDeadlines(out chan string) (all []string) {
	for {
		select {
		case s := <-out:
			all = append(all, s)
		default:
			slices.Sort(all) // those of one moment have no order
			return all
		}
	}
}

// Calls end when they would on the connection below, and with what they would.
func TestDeadlinesPassedOnLateEndCallsInTime(t *testing.T) {
	ends := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		steps := make([]deadlineStep, 0, 40)
		at := time.Duration(0)
		for range 40 {
			at += time.Duration(1+r.IntN(20)) * time.Second
			s := deadlineStep{at: at, until: at + time.Duration(r.IntN(60))*time.Second + 500*time.Millisecond}
			if k := r.IntN(6); k == 0 {
				s.until = 0
			} else if k == 1 {
				s.until = -1
			}
			s.what = []string{"read", "write", "set reads", "set writes", "set both", "set reads", "set writes", "send", "receive"}[r.IntN(9)]
			steps = append(steps, s)
		}
		synctest.Test(t, func(t *testing.T) {
			want := runDeadlines(steps, func(c net.Conn) net.Conn { return c })
			got := runDeadlines(steps, func(c net.Conn) net.Conn { return newDeadlineConn(c) })
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d: steps %+v:\ngot  %v\nwant %v", seed, steps, got, want)
			}
			ends += len(want)
		})
	}
	if ends < 1000 {
		t.Errorf("only %d calls have ended", ends)
	}
}

// What is written in part before the deadline that has been put off is not written twice.
func TestDeadlinesPassedOnLateWriteOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newDeadlineConn(near)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(c.SetWriteDeadline(time.Now().Add(time.Second)))
		done := make(chan error, 1)
		go func() {
			n, err := c.Write([]byte("0123456789"))
			if n != 10 && err == nil {
				err = fmt.Errorf("%d bytes", n)
			}
			done <- err
		}()
		p := make([]byte, 10)
		_, err := io.ReadFull(far, p[:4])
		must(err)
		must(c.SetWriteDeadline(time.Now().Add(time.Minute)))
		time.Sleep(10 * time.Second)
		_, err = io.ReadFull(far, p[4:])
		must(err)
		must(<-done)
		if string(p) != "0123456789" {
			t.Errorf("got %q", p)
		}
		must(c.Close())
	})
}

// A deadline that is set while a call begins is that of the call, whichever was first.
func TestDeadlineSetWhileACallBegins(t *testing.T) {
	times := testkit.Steps(100_000, 1_000_000)
	began := time.Now()
	var d atomic.Pointer[deadline]
	var turn, done atomic.Int64
	await := func(n *atomic.Int64, i int64) {
		for n.Load() != i {
			runtime.Gosched()
		}
	}
	ended := make(chan error, 1)
	go func() {
		for i := range int64(times) {
			await(&turn, i+1)
			if err := d.Load().ask(began.Add(time.Hour)); err != nil {
				ended <- err
				return
			}
			done.Store(i + 1)
		}
		ended <- nil
	}()
	for i := range int64(times) {
		var passed atomic.Int64
		next := new(deadline)
		next.init(began, func(t time.Time) error {
			passed.Store(int64(t.Sub(began)))
			return nil
		})
		if err := next.ask(began.Add(2 * time.Hour)); err != nil {
			t.Fatal(err)
		}
		d.Store(next)
		turn.Store(i + 1)
		for range i % 256 {
			_ = turn.Load() // takes a moment
		}
		if err := next.begin(); err != nil {
			t.Fatal(err)
		}
		await(&done, i+1)
		if got := time.Duration(passed.Load()); got != time.Hour {
			t.Fatalf("call %d ends after %v", i, got)
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
