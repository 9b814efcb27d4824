// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/front"
)

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error)      { return len(b), nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }

// TestAllocs: a command allocates its key, and nothing else.
func TestAllocs(t *testing.T) {
	if testkit.Race() {
		t.Skip("the race detector allocates")
	}
	s, send := pipelined(16)
	if got := testing.AllocsPerRun(100, func() {
		s.n = copy(s.buffer, send)
		s.answer()
	}); got > 16 {
		t.Errorf("%v allocations for 16 commands", got)
	}
}

// BenchmarkPipeline answers pipelines of 16 commands, without the network.
func BenchmarkPipeline(b *testing.B) {
	s, send := pipelined(16)
	b.ReportAllocs()
	for b.Loop() {
		s.n = copy(s.buffer, send)
		s.answer()
	}
}

// pipelined returns a session, and the bytes of n commands.
func pipelined(n int) (*session, string) {
	l := &listener{resp: &RESP{}, ctx: context.Background()}
	l.current.Store(&active{Snapshot: &front.Snapshot{Store: memstore.New(memstore.Options{})}})
	s := &session{conn: &conn{Conn: sink{}, front: l, proto: 2, buffer: make([]byte, smallBuffer)}}
	return s, strings.Repeat("*5\r\n$11\r\nCL.THROTTLE\r\n$8\r\nkey:0001\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n", n)
}
