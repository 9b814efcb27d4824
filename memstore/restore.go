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

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// Restore reads what [Store.Snapshot] has written: every decision after it is
// the one that the other Store would have made. It must come before anything
// else is asked of the Store, and must not run concurrently with anything.
//
// It refuses a Store that holds states, another version, more states than the
// Store may hold, and what is damaged or cut short; then the Store is as it was.
// It takes no more memory than MaxKeys and the length of r allow. A checksum
// tells damage, not malice: restore only what you trust like the program itself.
func (s *Store) Restore(r io.Reader) error {
	if n := s.Stats().States; n > 0 {
		return fmt.Errorf("memstore: restore: the store holds %d states already; restore into a new one", n)
	}
	before := s.secret
	rr := &snapshotReader{r: bufio.NewReaderSize(r, 64<<10), crc: crc64.New(crcTable)}
	recs, err := rr.snapshot(s)
	if err != nil {
		s.clear()
		s.secret = before
		return fmt.Errorf("memstore: restore: byte %d: %w", rr.at, err)
	}
	s.registry.replace(recs)
	return nil
}

func (s *Store) clear() {
	for i := range s.shards {
		sh := &s.shards[i]
		perShard := sh.cap
		sh.shardState = shardState{}
		sh.init(perShard, &s.registry)
	}
}

// room returns how many states the Store may hold.
func (s *Store) room() int { return len(s.shards) * s.shards[0].cap }

// snapshotReader reads a snapshot's parts and keeps its checksum.
type snapshotReader struct {
	r   *bufio.Reader
	crc hash.Hash64
	at  int64 // bytes read
	one [8]byte
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

func (rr *snapshotReader) snapshot(s *Store) ([]*record, error) {
	head := make([]byte, len(snapshotMagic)+1)
	if err := rr.full(head); err != nil {
		return nil, err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("not a snapshot: it starts with %q, not %q", head[:len(snapshotMagic)], snapshotMagic)
	}
	if v := head[len(snapshotMagic)]; v != snapshotVersion {
		return nil, fmt.Errorf("version %d; this program reads version %d only", v, snapshotVersion)
	}
	for i := range s.secret {
		word, err := rr.word()
		if err != nil {
			return nil, err
		}
		s.secret[i] = word
	}
	if _, err := rr.varint(); err != nil {
		return nil, err
	}
	if err := rr.shards(s); err != nil {
		return nil, err
	}
	recs, err := rr.records()
	if err != nil {
		return nil, err
	}
	want := rr.crc.Sum64()
	if got, err := rr.word(); err != nil || got != want {
		return nil, errors.Join(err, fmt.Errorf("damaged: the checksum is %016x, not %016x", got, want))
	}
	if _, err := rr.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, errors.New("something follows behind the snapshot"))
	}
	return recs, nil
}

func (rr *snapshotReader) shards(s *Store) error {
	now, room := s.clock.now(), s.room()
	for {
		more, err := rr.ReadByte()
		if err != nil {
			return err
		}
		if more == 0 {
			return nil
		}
		if more != 1 {
			return fmt.Errorf("damaged: %d where a shard should start", more)
		}
		if err := rr.full(rr.one[:4]); err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint32(rr.one[:]))
		if n > room {
			return fmt.Errorf("more states than the %d this store may hold; make one of more MaxKeys", s.room())
		}
		room -= n
		for range n {
			if err := rr.state(s, now); err != nil {
				return err
			}
		}
	}
}

func (rr *snapshotReader) state(s *Store, now int64) error {
	kind, err := rr.ReadByte()
	if err != nil {
		return err
	}
	var state algo.State
	form, c := algo.Form(kind>>1&(1<<(kindClass-1)-1)), class(kind>>kindClass)
	state.Reserved = kind&1 != 0
	id, err := rr.word()
	if err != nil {
		return err
	}
	for _, field := range []*int64{&state.Idle, &state.A, &state.B} {
		if *field, err = rr.varint(); err != nil {
			return err
		}
	}
	if form >= forms || id == 0 || !fits(form, &state) {
		return fmt.Errorf("damaged: a state of kind %d is not one", kind)
	}
	if form == algo.FormRing {
		if err := rr.ring(&state); err != nil {
			return err
		}
	}
	// The bits of a hash that choose the shard are the identity's too.
	sh := s.shardOf(id)
	if c == kept && !sh.keeps(used) {
		c = used
	}
	sh.store(form, id, now, &state, c, nil)
	return nil
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

func (rr *snapshotReader) records() ([]*record, error) {
	n, err := rr.size("limits", stripes*maxSeries*maxChanges)
	if err != nil {
		return nil, err
	}
	var recs []*record
	for range n {
		rec, err := rr.record()
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

func (rr *snapshotReader) record() (*record, error) {
	var texts [2]string
	for i, most := range []int{sluice.MaxScopeBytes, sluice.MaxTextBytes} {
		n, err := rr.size("bytes of a scope or limit", most)
		if err != nil {
			return nil, err
		}
		b := make([]byte, n)
		if err := rr.full(b); err != nil {
			return nil, err
		}
		texts[i] = string(b)
	}
	id, err := rr.word()
	if err != nil {
		return nil, err
	}
	used, err := rr.varint()
	if err != nil {
		return nil, err
	}
	limit, err := sluice.ParseLimit(texts[1])
	if err != nil {
		return nil, err
	}
	plan, err := sluice.Compile(texts[0], limit)
	if err != nil {
		return nil, err
	}
	if t := plan.Term(0); t.ID != id {
		return nil, fmt.Errorf("the limit %q has the ID %016x, not %016x: it was written by another version", texts[1], t.ID, id)
	}
	return newRecord(texts[0], plan.Term(0), used), nil
}
