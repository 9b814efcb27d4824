// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"bufio"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// held is what a process may forget to give back.
type held struct {
	goroutines, files, connections int
	heap                           int64
}

// keepDescriptors makes the runtime allocate the descriptors of as many goroutines as a client
// may start in an outage. The runtime never frees them, so they would count as growth of the heap.
func keepDescriptors() {
	var group sync.WaitGroup
	end := make(chan struct{})
	for range 2000 {
		group.Go(func() { <-end })
	}
	close(end)
	group.Wait()
}

// holding counts what is held now. Connections are those that servers have with
// stores.
func holding(t *testing.T, servers []*redistest.Server) held {
	t.Helper()
	var h held
	for _, s := range servers {
		h.connections += strings.Count(clientList(t, s), " name=sluice ")
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	h.files, h.heap, h.goroutines = len(files), int64(m.HeapAlloc), runtime.NumGoroutine()
	return h
}

// clientList returns what a server says of its connections. It asks over a bare
// one: a client's goroutines and buffers outlive its Close for a while and would
// be counted.
func clientList(t *testing.T, s *redistest.Server) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, testkit.Ceiling)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()                                    //nolint:errcheck // it was read to the end
	_ = conn.SetDeadline(time.Now().Add(testkit.Ceiling)) // or reading fails
	if _, err := io.WriteString(conn, "CLIENT LIST\r\n"); err != nil {
		t.Fatal(err)
	}
	reply := bufio.NewReader(conn)
	head, err := reply.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	size, err := strconv.Atoi(strings.Trim(head, "$\r\n"))
	if err != nil {
		t.Fatalf("CLIENT LIST: %s", head)
	}
	list := make([]byte, size)
	if _, err := io.ReadFull(reply, list); err != nil {
		t.Fatal(err)
	}
	return string(list)
}

// awaitNoMore waits until no more is held than before, but for room bytes.
func awaitNoMore(t *testing.T, servers []*redistest.Server, before held, room int64) {
	t.Helper()
	var now held
	defer func() { t.Logf("held before %+v, now %+v", before, now) }()
	testkit.Until(t, "everything to be given back", func() bool {
		now = holding(t, servers)
		return now.goroutines <= before.goroutines && now.files <= before.files &&
			now.connections <= before.connections && now.heap <= before.heap+room
	})
}

// nothingGrows shows that a process that has lived through many outages holds what it
// held after the first ones, while it goes on working.
func (c *Client) nothingGrows(t *testing.T, f *fault) {
	const first, more = 2, 4
	g := f.setUp(t)
	g.steady = true
	r := c.rig(t, g, sluice.FailLocal, f.patience())
	var before held
	for n := range first + more*times(t) {
		r.start()
		noticed := r.notices("")
		g.strike([]*rig{r})
		testkit.Until(t, "an outage", noticed)
		g.heal()
		testkit.Until(t, "the store to be healthy", func() bool { return r.store.Err() == nil })
		r.halt() // what is in flight is no leak
		r.settle(t)
		r.forget()
		if n+1 == first {
			before = holding(t, g.servers)
		}
	}
	awaitNoMore(t, g.servers, before, 1<<18)
	r.close(t)
	testkit.Until(t, "connections to be closed", func() bool { return holding(t, g.servers).connections == 0 })
}
