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
	"maps"
	"math"
	"slices"

	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/compiled"
)

// A snapshot is, in little-endian words and varints of package encoding/binary:
//
//	"sluicem", version
//	secret (4 words)
//	voids: the instant of all keys, their number, and for each its hash, instant and end
//	shards: for each 1, its number of entries in 32 bits, and these; then a 0
//	limits: their number, and these
//	CRC-64 (ECMA) of everything before it
//
// An entry is a state, or a limit before the first state that names it. The limits at the end
// are the others, which no slot names.
const (
	snapshotMagic   = "sluicem"
	snapshotVersion = 1

	maxRing = 1<<20 - 1 // words
)

// The first byte of an entry: the size of a state, with flags, or entryLimit.
const (
	entrySize     = 3
	entryReserved = 1 << 2
	entryMore     = 1 << 3
	entryClass    = 4 // shift of the class
	entryLimit    = 1 << 7
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// Snapshot writes all states, for [Store.Restore]. It may run concurrently with all
// other calls. It writes each shard under its lock, so that a take may wait for some tens
// of µs, or for about 1 ms per MB if a shard holds large rings. A take during the Snapshot
// may be in it or not, and a take over several keys for some of them only. Without
// concurrent calls the Snapshot is exact.
//
// The snapshot holds the secret of the hash: a reader can make keys collide.
func (s *Store) Snapshot(w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	sw := &snapshotWriter{w: buffered, crc: crc64.New(crcTable), reported: make(map[*version]uint64)}
	now := s.clock.now()
	sw.buf = append(sw.buf, snapshotMagic...)
	sw.buf = append(sw.buf, snapshotVersion)
	for _, word := range s.secret {
		sw.buf = binary.LittleEndian.AppendUint64(sw.buf, word)
	}
	sw.voids(&s.voids)
	for part := 0; part < len(s.shards); {
		part = s.visit(part, func(sh *shard) { sw.shard(sh, now) })
		sw.flush()
	}
	sw.buf = append(sw.buf, 0)
	sw.limits(s.registry.all())
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

// snapshotWriter collects bytes in buf and writes them, until the first error.
type snapshotWriter struct {
	w   io.Writer
	crc hash.Hash64
	buf []byte
	err error
	// reported are the written versions with their numbers, from 1 on. Their indexes do
	// not serve: by the next shard another version may have one.
	reported map[*version]uint64
}

func (sw *snapshotWriter) flush() {
	if sw.err == nil {
		sw.crc.Write(sw.buf) // never fails
		_, sw.err = sw.w.Write(sw.buf)
	}
	sw.buf = sw.buf[:0]
}

func (sw *snapshotWriter) shard(sh *shard, now int64) {
	start := len(sw.buf)
	entries := uint32(0)
	sw.buf = append(sw.buf, 1, 0, 0, 0, 0)
	sh.words.each(now, func(id uint64, s *algo.State, c class) {
		sw.state(sizeWord, id, 0, s, c, 0)
		entries++
	})
	for k := range sh.tables {
		t := &sh.tables[k]
		for i := range t.n {
			if t.id(i) == 0 || t.idle(i) <= now {
				continue
			}
			var s algo.State
			v := sh.read(t, i, &s)
			if v != nil && sw.reported[v] == 0 {
				sw.limit(v)
				entries++
			}
			sw.state(t.size.written(), t.id(i), sw.reported[v], &s, t.class(i), t.slots[i*t.stride+1]&more)
			entries++
		}
	}
	if entries == 0 {
		sw.buf = sw.buf[:start]
		return
	}
	binary.LittleEndian.PutUint32(sw.buf[start+1:], entries)
}

func (sw *snapshotWriter) state(size stateSize, id uint64, by uint64, s *algo.State, c class, flags uint64) {
	kind := byte(size) | byte(c)<<entryClass
	if s.Reserved {
		kind |= entryReserved
	}
	if flags&more != 0 {
		kind |= entryMore
	}
	b := sw.buf
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.AppendVarint(b, s.Idle)
	b = binary.AppendVarint(b, s.A)
	if size != sizeWord {
		b = binary.AppendVarint(b, s.B)
		b = binary.AppendVarint(b, s.Since)
		b = binary.AppendVarint(b, s.Last)
		b = binary.AppendUvarint(b, by)
	}
	if size == sizeRing {
		b = binary.AppendUvarint(b, uint64(len(s.Ring)))
		b = binary.AppendUvarint(b, uint64(s.Head))
		b = binary.AppendUvarint(b, uint64(s.Len))
		for _, w := range s.Ring {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	sw.buf = b
}

func (sw *snapshotWriter) voids(v *voids) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := binary.AppendUvarint(binary.AppendVarint(sw.buf, v.all), uint64(len(v.keys)))
	for _, hash := range slices.Sorted(maps.Keys(v.keys)) { // equal stores have equal snapshots
		k := v.keys[hash]
		b = binary.AppendVarint(binary.AppendVarint(binary.LittleEndian.AppendUint64(b, hash), k.at), k.ends)
	}
	sw.buf = b
}

// written returns the size that a snapshot names for states of a size.
func (size stateSize) written() stateSize {
	if size == sizePair {
		return sizeFixed
	}
	return size
}

// limit writes a version: its number, scope, text and ID, the instants of its last lookup
// and of the start of its series, and whether the words of the series are its own.
func (sw *snapshotWriter) limit(v *version) {
	sw.reported[v] = uint64(len(sw.reported)) + 1
	b := sw.buf
	b = append(b, entryLimit)
	b = binary.AppendUvarint(b, sw.reported[v])
	for _, text := range []string{v.scope, v.term.Limit.String()} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.LittleEndian.AppendUint64(b, v.term.ID)
	b = binary.AppendVarint(b, v.used.Load())
	b = binary.AppendVarint(b, v.series.start.Load())
	owns := byte(0)
	if v.series.words.Load() == v {
		owns = 1
	}
	b = append(b, owns)
	sw.buf = b
}

// limits writes the versions that have not been written.
func (sw *snapshotWriter) limits(all []*version) {
	all = slices.DeleteFunc(all, func(v *version) bool { return sw.reported[v] != 0 })
	sw.buf = binary.AppendUvarint(sw.buf, uint64(len(all)))
	for _, v := range all {
		sw.limit(v)
	}
}

// fits reports whether a slot of a size can hold s, written by v.
func fits(size stateSize, s *algo.State, v *version) bool {
	// The sum of the sub-windows of a counter may be 2^63 or more.
	counts := v != nil && v.term.Kind == compiled.SlidingCounter && size == sizeRing
	if s.Idle < 1 || s.Idle > math.MaxInt64/2 || s.A < 0 && !counts || s.Since < 0 || s.Last < 0 {
		return false
	}
	if s.B < 0 && (v == nil || s.B < -v.term.Credit || s.A != 0) {
		return false
	}
	switch {
	case size == sizeRing && !balance(v) && s.B > maxRingB:
		return false
	case size == sizeWord:
		return s.A < 1<<wideABits && !s.Reserved
	case warms(v) && (s.B < 1 || s.B > v.term.WarmUp.Microseconds()):
		return false
	case v != nil:
		return sizeOf(v, s).written() == size
	default: // slots in flight, or a version without an index
		return true
	}
}
