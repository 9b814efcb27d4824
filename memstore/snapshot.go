// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"math"

	"github.com/sluicegate/sluice/algo"
)

// A snapshot is, in little-endian words and varints of package encoding/binary:
//
//	"sluicem", version
//	secret (4 words), instant of writing
//	shards: for each 1, its number of states in 32 bits, and these; then a 0
//	limits: their number, and for each: scope, text, ID, last use
//	CRC-64 (ECMA) of all that
//
// The limits come last so that those of every state are among them.
const (
	snapshotMagic   = "sluicem"
	snapshotVersion = 1

	maxRing = 1<<20 - 1 // words

	kindClass = 6 // where in a state's kind its class is, above Reserved and form
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// Snapshot writes all states and what is needed to find them again. Takes may
// go on meanwhile. Each shard is written as it is at one instant, under its
// lock, so that a take may wait for some tens of µs, for about 1 ms per MB
// where a shard holds large rings; a take during the Snapshot may be in it or
// not, and one over several keys may be in it for some of them. A Store that is
// asked nothing any more is written exactly.
//
// The snapshot holds the secret of the hash: who reads it can make keys collide.
func (s *Store) Snapshot(w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	sw := &snapshotWriter{w: buffered, crc: crc64.New(crcTable)}
	now := s.clock.now()
	sw.buf = append(sw.buf, snapshotMagic...)
	sw.buf = append(sw.buf, snapshotVersion)
	for _, word := range s.secret {
		sw.buf = binary.LittleEndian.AppendUint64(sw.buf, word)
	}
	sw.buf = binary.AppendVarint(sw.buf, now)
	for i := range s.shards {
		sw.shard(&s.shards[i], now)
		sw.flush()
	}
	sw.buf = append(sw.buf, 0)
	sw.records(s.registry.records())
	sw.flush()
	sw.buf = binary.LittleEndian.AppendUint64(sw.buf, sw.crc.Sum64())
	sw.flush()
	if sw.err == nil {
		sw.err = buffered.Flush()
	}
	if sw.err != nil {
		return fmt.Errorf("memstore: snapshot: %w", sw.err)
	}
	return nil
}

// snapshotWriter writes what has gathered in buf, until the first error.
type snapshotWriter struct {
	w   io.Writer
	crc hash.Hash64
	buf []byte
	err error
}

func (sw *snapshotWriter) flush() {
	if sw.err == nil {
		sw.crc.Write(sw.buf) // never fails
		_, sw.err = sw.w.Write(sw.buf)
	}
	sw.buf = sw.buf[:0]
}

func (sw *snapshotWriter) shard(sh *shard, now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	start := len(sw.buf)
	live := uint32(0)
	sw.buf = append(sw.buf, 1, 0, 0, 0, 0)
	sh.each(now, func(f algo.Form, id uint64, s *algo.State, c class) {
		sw.state(f, id, s, c)
		live++
	})
	if live == 0 {
		sw.buf = sw.buf[:start]
		return
	}
	binary.LittleEndian.PutUint32(sw.buf[start+1:], live)
}

// each calls f for every state that lives at now.
func (sh *shard) each(now int64, f func(f algo.Form, id uint64, s *algo.State, c class)) {
	sh.words.each(now, func(id uint64, s *algo.State, c class) { f(algo.FormWord, id, s, c) })
	for k := range sh.tables {
		t := &sh.tables[k]
		for i := range t.n {
			if t.id(i) == 0 || t.idle(i) <= now {
				continue
			}
			var s algo.State
			t.read(i, &s)
			if t.form == algo.FormRing {
				s.Ring = sh.ring(t, i)
			}
			f(t.form, t.id(i), &s, t.class(i))
		}
	}
}

func (sw *snapshotWriter) state(f algo.Form, id uint64, s *algo.State, c class) {
	kind := byte(f)<<1 | byte(c)<<kindClass
	if s.Reserved {
		kind |= 1
	}
	b := sw.buf
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.AppendVarint(b, s.Idle)
	b = binary.AppendVarint(b, s.A)
	b = binary.AppendVarint(b, s.B)
	if f == algo.FormRing {
		b = binary.AppendUvarint(b, uint64(len(s.Ring)))
		b = binary.AppendUvarint(b, uint64(s.Head))
		b = binary.AppendUvarint(b, uint64(s.Len))
		for _, w := range s.Ring {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	sw.buf = b
}

func (sw *snapshotWriter) records(recs []*record) {
	sw.buf = binary.AppendUvarint(sw.buf, uint64(len(recs)))
	for _, rec := range recs {
		for _, text := range []string{rec.scope, rec.term.Limit.String()} {
			sw.buf = binary.AppendUvarint(sw.buf, uint64(len(text)))
			sw.buf = append(sw.buf, text...)
		}
		sw.buf = binary.LittleEndian.AppendUint64(sw.buf, rec.term.ID)
		sw.buf = binary.AppendVarint(sw.buf, rec.used.Load())
	}
}

// fits reports whether a state of form f can be what s says.
func fits(f algo.Form, s *algo.State) bool {
	if s.Idle < 1 || s.Idle > math.MaxInt64/2 || s.Reserved && f == algo.FormWord {
		return false
	}
	switch f {
	case algo.FormWord:
		return uint64(s.A) < 1<<lowBits && s.B == 0
	case algo.FormPair:
		return s.B == 0
	case algo.FormDuo:
		return uint64(s.A) < 1<<32 && uint64(s.B) < 1<<32
	default:
		return true
	}
}
