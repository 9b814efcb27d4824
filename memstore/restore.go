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

// Restore reads what [Store.Snapshot] has written: every decision after it is
// the one that the other Store would have made. It must come before anything
// else is asked of the Store, and must not run concurrently with anything.
//
// It refuses a Store that holds states, another version, more states than the
// Store may hold, and what is damaged or cut short; then the Store is as it was.
// It takes no more memory than MaxKeys and the length of r allow. A checksum
// reports damage, not malice: restore only what you trust like the program itself.
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

// room returns how many states the Store may hold.
func (s *Store) room() int { return len(s.shards) * s.perShard }

// snapshotReader reads a snapshot's parts and keeps its checksum.
type snapshotReader struct {
	r   *bufio.Reader
	crc hash.Hash64
	at  int64 // bytes read
	one [8]byte

	now      int64
	versions map[uint64]*version // by the index that they had
}

// ReadByte makes the reader one that varints are read from.
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
		return errors.Join(err, errors.New("something follows behind the snapshot"))
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
	room := s.room()
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
			if room < 0 {
				return fmt.Errorf("more states than the %d this store may hold; make one of more MaxKeys", s.room())
			}
			state, err := rr.entry(s)
			if err != nil {
				return err
			}
			if state {
				room--
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
			return fmt.Errorf("damaged: a state of limit %d, which is not there", index)
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

// keep stores a state unless it has died since.
func (rr *snapshotReader) keep(s *Store, size stateSize, id uint64, v *version, state *algo.State, c class, flags uint64) {
	if state.Idle <= rr.now {
		return
	}
	sh := s.lock(s.part(id)) // the bits of a hash that choose the shard are the identity's too
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
	for range size { // appended, so that a wrong size makes no room that is not filled
		word, err := rr.word()
		if err != nil {
			return err
		}
		s.Ring = append(s.Ring, word)
	}
	return nil
}

// limits reads the limits at the end.
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

// term reads a limit with its scope and when it was last used.
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
