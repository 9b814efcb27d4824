// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"runtime"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Restore reads a snapshot that [Store.Snapshot] has written: the Store then decides
// every request as the other Store would have. It must be called before any other
// method, and not concurrently with any.
//
// It returns an error if the Store holds states, or if the snapshot is of another
// version, has more states than the Store may hold, is damaged or is cut short. The
// Store is then unchanged. The memory is bounded by MaxKeys and the length of r. The
// checksum finds damage, not malice: restore only a snapshot that you trust like the
// program itself.
func (s *Store) Restore(r io.Reader) error {
	if n := s.Stats().States; n > 0 {
		return fmt.Errorf("memstore: restore: the store holds %d states already; restore into a new one", n)
	}
	before := s.secret
	rr := &snapshotReader{r: bufio.NewReaderSize(r, 64<<10), crc: crc64.New(crcTable)}
	if err := rr.snapshot(s); err != nil {
		s.registry.clear()
		s.open(8 * runtime.GOMAXPROCS(0))
		s.secret = before
		s.voids.clear()
		return fmt.Errorf("memstore: restore: byte %d: %w", rr.at, err)
	}
	return nil
}

// capacity returns the number of states that the Store may hold.
func (s *Store) capacity() int { return len(s.shards) * s.perShard }

// snapshotReader reads the parts of a snapshot and computes its checksum.
type snapshotReader struct {
	r   *bufio.Reader
	crc hash.Hash64
	at  int64 // bytes read
	one [8]byte

	now      int64
	versions map[uint64]*version // by their number in the snapshot
}

// ReadByte implements [io.ByteReader], from which varints are read.
func (rr *snapshotReader) ReadByte() (byte, error) {
	if err := rr.full(rr.one[:1]); err != nil {
		return 0, err
	}
	return rr.one[0], nil
}

func (rr *snapshotReader) full(b []byte) error {
	n, err := io.ReadFull(rr.r, b)
	rr.at += int64(n)
	rr.crc.Write(b[:n]) // never fails
	return cutShort(err)
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("cut short: the snapshot ends in the middle")
	}
	return err
}

func (rr *snapshotReader) word() (uint64, error) {
	err := rr.full(rr.one[:])
	return binary.LittleEndian.Uint64(rr.one[:]), err
}

func (rr *snapshotReader) varint() (int64, error) { return binary.ReadVarint(rr) }

// size reads a number of at most limit.
func (rr *snapshotReader) size(what string, limit int) (int, error) {
	n, err := binary.ReadUvarint(rr)
	if err == nil && n > uint64(limit) {
		err = fmt.Errorf("%d %s are more than %d", n, what, limit)
	}
	return int(n), err
}

func (rr *snapshotReader) snapshot(s *Store) error {
	head := make([]byte, len(snapshotMagic)+1)
	if err := rr.full(head); err != nil {
		return err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return fmt.Errorf("not a snapshot: it starts with %q, not %q", head[:len(snapshotMagic)], snapshotMagic)
	}
	if version := head[len(snapshotMagic)]; version != snapshotVersion {
		return fmt.Errorf("the snapshot has version %d, and this program reads version %d: restore it with the release that wrote it", version, snapshotVersion)
	}
	for i := range s.secret {
		word, err := rr.word()
		if err != nil {
			return err
		}
		s.secret[i] = word
	}
	rr.now, rr.versions = s.clock.now(), make(map[uint64]*version)
	if err := rr.voids(&s.voids); err != nil {
		return err
	}
	if err := rr.shards(s); err != nil {
		return err
	}
	if err := rr.limits(s); err != nil {
		return err
	}
	want := rr.crc.Sum64()
	if got, err := rr.word(); err != nil || got != want {
		return errors.Join(err, fmt.Errorf("damaged: the checksum is %016x, not %016x", got, want))
	}
	if _, err := rr.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(err, errors.New("data follows the snapshot"))
	}
	return nil
}

func (rr *snapshotReader) voids(v *voids) error {
	var errs [4]error
	var n int
	v.all, errs[0] = rr.varint()
	n, errs[1] = rr.size("keys with void receipts", mostVoids)
	for i := 0; i < n && errs == [4]error{}; i++ {
		var hash uint64
		var at, ends int64
		hash, errs[0] = rr.word()
		at, errs[1] = rr.varint()
		ends, errs[2] = rr.varint()
		v.set(hash, at, ends, rr.now)
	}
	v.any.Store(v.all > 0 || n > 0)
	return errors.Join(errs[:]...)
}

func (rr *snapshotReader) shards(s *Store) error {
	left := s.capacity()
	for {
		next, err := rr.ReadByte()
		if err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		if next != 1 {
			return fmt.Errorf("damaged: %d where a shard should start", next)
		}
		if err := rr.full(rr.one[:4]); err != nil {
			return err
		}
		for range binary.LittleEndian.Uint32(rr.one[:]) {
			if left < 0 {
				return fmt.Errorf("more states than the %d this store may hold; make one with a larger MaxKeys", s.capacity())
			}
			state, err := rr.entry(s)
			if err != nil {
				return err
			}
			if state {
				left--
			}
		}
	}
}

// entry reads an entry and reports whether it is a state.
func (rr *snapshotReader) entry(s *Store) (state bool, err error) {
	kind, err := rr.ReadByte()
	if err != nil {
		return false, err
	}
	if kind == entryLimit {
		return false, rr.limit(s)
	}
	return true, rr.state(s, kind)
}

func (rr *snapshotReader) state(s *Store, kind byte) error {
	var state algo.State
	size, c := stateSize(kind&entrySize), class(kind>>entryClass&classMask)
	state.Reserved = kind&entryReserved != 0
	id, err := rr.word()
	if err != nil {
		return err
	}
	fields := []*int64{&state.Idle, &state.A, &state.B, &state.Since, &state.Last}
	if size == sizeWord {
		fields = fields[:2]
	}
	for _, field := range fields {
		if *field, err = rr.varint(); err != nil {
			return err
		}
	}
	var v *version
	if size != sizeWord {
		index, err := binary.ReadUvarint(rr)
		if err != nil {
			return err
		}
		if v = rr.versions[index]; v == nil && index != 0 {
			return fmt.Errorf("damaged: a state of limit %d, which is missing", index)
		}
	}
	if size > sizeRing || id == 0 || !fits(size, &state, v) || kind&^(entrySize|entryReserved|entryMore|classMask<<entryClass) != 0 {
		return fmt.Errorf("damaged: a state of kind %d is not one", kind)
	}
	if size == sizeRing {
		if err := rr.ring(&state); err != nil {
			return err
		}
	}
	if size != sizeWord && v != nil {
		size = sizeOf(v, &state)
	}
	flags := uint64(0)
	if kind&entryMore != 0 {
		flags = more
	}
	rr.keep(s, size, id, v, &state, c, flags)
	return nil
}

// keep stores a state unless it is idle by now.
func (rr *snapshotReader) keep(s *Store, size stateSize, id uint64, v *version, state *algo.State, c class, flags uint64) {
	if state.Idle <= rr.now {
		return
	}
	sh := s.lock(s.part(id)) // an identity has the bits of its hash that choose the shard
	defer sh.mu.Unlock()
	if size == sizeWord {
		sh.storeWord(id, rr.now, state, c, nil)
		return
	}
	if v != nil {
		v.series.sizes.Or(1 << size)
	}
	sh.store(size, id, rr.now, v, state, c, flags, nil)
}

func (rr *snapshotReader) ring(s *algo.State) error {
	size, err := rr.size("words of a ring", maxRing)
	if err != nil {
		return err
	}
	if s.Head, err = rr.size("words in front of a ring's head", size); err != nil {
		return err
	}
	if s.Len, err = rr.size("words used of a ring", size); err != nil {
		return err
	}
	if size > 0 && s.Head == size {
		return fmt.Errorf("damaged: a ring of %d words starts at word %d", size, s.Head)
	}
	for range size { // append, so that a wrong size allocates no more than r holds
		word, err := rr.word()
		if err != nil {
			return err
		}
		s.Ring = append(s.Ring, word)
	}
	return nil
}

// limits reads the limits at the end of the snapshot.
func (rr *snapshotReader) limits(s *Store) error {
	n, err := rr.size("limits", maxVersions)
	if err != nil {
		return err
	}
	for range n {
		kind, err := rr.ReadByte()
		if err != nil {
			return err
		}
		if kind != entryLimit {
			return fmt.Errorf("damaged: %d where a limit should start", kind)
		}
		if err := rr.limit(s); err != nil {
			return err
		}
	}
	return nil
}

func (rr *snapshotReader) limit(s *Store) error {
	index, err := binary.ReadUvarint(rr)
	if err != nil {
		return err
	}
	scope, term, used, err := rr.term()
	if err != nil {
		return err
	}
	start, err := rr.varint()
	if err != nil {
		return err
	}
	owns, err := rr.ReadByte()
	if err != nil {
		return err
	}
	v := s.registry.add(scope, term, used)
	v.series.start.Store(max(start, 1))
	if owns == 1 && sizeOfForm(term) == sizeWord {
		v.series.words.Store(v)
	}
	rr.versions[index] = v
	return nil
}

// term reads a limit with its scope and the instant of its last use.
func (rr *snapshotReader) term() (scope string, t *sluice.Term, used int64, err error) {
	var texts [2]string
	for i, most := range []int{bounds.MaxScopeBytes, bounds.MaxTextBytes} {
		n, err := rr.size("bytes of a scope or limit", most)
		if err != nil {
			return "", nil, 0, err
		}
		b := make([]byte, n)
		if err := rr.full(b); err != nil {
			return "", nil, 0, err
		}
		texts[i] = string(b)
	}
	id, err := rr.word()
	if err != nil {
		return "", nil, 0, err
	}
	if used, err = rr.varint(); err != nil {
		return "", nil, 0, err
	}
	limit, err := sluice.ParseLimit(texts[1])
	if err != nil {
		return "", nil, 0, err
	}
	if t, err = sluice.CompileLimit(texts[0], limit); err != nil {
		return "", nil, 0, err
	}
	if t.ID != id {
		return "", nil, 0, fmt.Errorf("damaged: the limit %q has the ID %016x, not %016x", texts[1], t.ID, id)
	}
	return texts[0], t, used, nil
}
