// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	recordsKey = "overrides"
	logKey     = "log"
	headField  = "!head"

	// MostEntries is how many entries the log keeps.
	MostEntries = 1000
	// MostRecords is how many records there are at most, removed ones included.
	MostRecords = 40_000
	// KeepRemoved is how long a record that was removed is kept at least, so that no
	// copy brings it back.
	KeepRemoved = 31 * 24 * time.Hour
	// MostUnconfirmed is for how long a copy is put back into the store that the
	// store has not confirmed.
	MostUnconfirmed = 30 * 24 * time.Hour

	longestBody = 16 << 10 // bytes of a record or entry
	longestKept = longestBody + 200
	mostPending = 256 // entries that wait for the store
	mostAtOnce  = 100 // records in one call that writes

	// compareTimeout is how long a comparison may take: over a slow network each of its
	// calls does.
	compareTimeout = 30 * time.Second
)

// Record is a value that all nodes keep. Of two records of a name the one with the
// larger version is right.
type Record struct {
	Name    string // what [Conn.RecordID] is made of
	Version Version
	Body    []byte // says the name, too
}

// Entry is a line of the log.
type Entry struct {
	Number int64
	Own    bool // this process has written it
	Body   []byte
}

// Copy is what a node keeps of the records, as functions that are safe for concurrent
// use.
type Copy struct {
	// NameOf returns the name in a body, or why it cannot be used.
	NameOf func(body []byte) (string, error)
	// Version returns the version of a record, zero if the copy has none.
	Version func(name string) Version
	// All returns all records.
	All func() []Record
	// Learn puts those of some records into the copy that are newer than its own.
	Learn func([]Record)
	// Drop removes records without a trace: of names that nobody may put back.
	Drop func(names []string, why error)
	// Over returns the names of records that ended before a moment.
	Over func(before time.Time) []string
	// Confirmed is called when the copy is as the store is, at a moment by its clock.
	Confirmed func(time.Time)
	// Heard is called for entries of the log that others have written, Missed where
	// there were some that nobody can read any more.
	Heard  func(Entry)
	Missed func()
	// Refill returns the entry that says that records were put back into the store.
	Refill func(records int) []byte
}

// Records are records that the nodes of a store share, and the log of their changes.
// It is safe for concurrent use.
type Records struct {
	conn *Conn
	copy Copy

	drift atomic.Int64  // ns from this process's clock to the store's
	turn  chan struct{} // held while the copy is compared with the store
	mu    sync.Mutex
	head  head // up to which the copy has read; of the last comparison
	last  time.Time
	sync  bool      // the copy is as the store was at head
	fails bool      // the last poll's changes could not be read, or its entries not be written
	most  int64     // the largest number that is known
	wait  []waiting // entries that are to be written to the log
	owes  int       // records that were put back without an entry so far
	tidy  time.Time // when what is over is looked for
}

// head is the last entry of the log.
type head struct {
	number int64
	id     string // random: a store that lost entries counts on with others
}

func parseHead(text string) (h head, ok bool) {
	number, id, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	return head{n, id}, err == nil && n > 0 && n <= mostCounter && id != ""
}

// ErrStale is why records of a copy were dropped that the store did not have.
var ErrStale = errors.New("fleet: the store has not confirmed this copy for 30 days and no longer has the record, which may have been removed")

// errImplausible is why records of a copy were dropped that nothing could replace.
var errImplausible = errors.New("fleet: the record has a version to which no store has counted")

// ConflictError is a change that was not made, as somebody else has made one.
type ConflictError struct{ Now *Record } // as it is; nil if there is none

// Error says what happened.
func (e *ConflictError) Error() string {
	return "fleet: somebody else has changed this meanwhile"
}

// ErrFull is what a change returns for which there is no room.
var ErrFull = fmt.Errorf("fleet: there are %d records, with those that were removed or expired in the last %d days; no other can be added until some are older",
	MostRecords, KeepRemoved/(24*time.Hour))

// NewRecords returns Records, and registers them. Confirmed is when the copy was last as
// the store is, zero if it never was.
func NewRecords(c *Conn, of Copy, confirmed time.Time) *Records {
	r := &Records{conn: c, copy: of, turn: make(chan struct{}, 1), last: confirmed}
	c.Register(Part{Marks: []Mark{{recordsKey, headField}}, Tick: r.tick, Timeout: compareTimeout})
	return r
}

// Synced reports whether the copy was as the store is at the last poll.
func (r *Records) Synced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sync && !r.fails && r.conn.Err() == nil
}

// Drift returns how far the store's clock is ahead of this process's.
func (r *Records) Drift() time.Duration { return time.Duration(r.drift.Load()) }

// tick looks whether the store has something else than the copy.
func (r *Records) tick(ctx context.Context, t Tick) {
	if t.Err != nil {
		return
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return
	}
	r.drift.Store(int64(time.Until(t.Now)))
	r.mu.Lock()
	have, synced := r.head, r.sync
	r.mu.Unlock()
	there, ok := parseHead(t.Values[0])
	unwritten := r.flush(ctx)
	var err error
	switch {
	case synced && ok && there == have:
		r.reached(have, t.Now)
	case synced && ok:
		err = r.follow(ctx, have, t.Now)
	default:
		err = r.compare(ctx, t.Now)
	}
	r.mu.Lock()
	r.fails = err != nil || unwritten != nil
	r.mu.Unlock()
	if unwritten != nil {
		r.conn.warn("the log of what nodes share could not be written", unwritten)
	}
	if err != nil {
		r.conn.warn("what nodes share could not be read", err)
		return
	}
	r.copy.Confirmed(t.Now)
	r.tidyUp(ctx, t.Now)
}

// raise notes numbers that the store does not go below.
func (r *Records) raise(counter int64) {
	if plausible(counter, r.now()) {
		r.mu.Lock()
		r.most = max(r.most, counter)
		r.mu.Unlock()
	}
}

// now returns the time by the store's clock.
func (r *Records) now() time.Time { return time.Now().Add(r.Drift()) }

// learn puts records into the copy.
func (r *Records) learn(all []Record) {
	if len(all) == 0 {
		return
	}
	for i := range all {
		r.raise(all[i].Version.Counter)
	}
	r.copy.Learn(all)
}

// reached notes up to where the copy is as the store.
func (r *Records) reached(h head, now time.Time) {
	r.raise(h.number)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head, r.sync, r.last = h, true, now
}

// Change writes a record if the store has it in version was, and an entry to the
// log, or neither. The error is a [*ConflictError], [ErrFull], or of [Conn.Eval].
func (r *Records) Change(ctx context.Context, name string, was Version, body, entry []byte) (Version, error) {
	if err := r.down(); err != nil {
		return Version{}, err
	}
	r.mu.Lock()
	synced := r.sync && !r.fails
	r.mu.Unlock()
	if !synced { // the store may count anew
		if err := r.compareNow(ctx); err != nil {
			return Version{}, err
		}
	}
	v, err := r.change(ctx, name, was, body, entry)
	if c, ok := errors.AsType[*ConflictError](err); ok && c.Now == nil && was != (Version{}) {
		// The store has lost it. Nodes put it back, this one among them.
		r.mu.Lock()
		r.sync = false
		r.mu.Unlock()
		if err := r.compareNow(ctx); err != nil {
			return Version{}, err
		}
		return r.change(ctx, name, was, body, entry)
	}
	return v, err
}

// down returns why the last poll failed: who asks should not wait for a store that
// hangs.
func (r *Records) down() error {
	err := r.conn.Err()
	if err == nil || errors.Is(err, ErrNotSent) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

// compareNow compares the copy with the store at once.
func (r *Records) compareNow(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
		if err := r.compare(ctx, r.now()); err != nil {
			return fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
}

func (r *Records) change(ctx context.Context, name string, was Version, body, entry []byte) (Version, error) {
	if len(body) > longestBody/2 || len(entry) > longestBody/2 {
		return Version{}, fmt.Errorf("fleet: %d and %d bytes; at most %d are shared: write a shorter reason", len(body), len(entry), longestBody/2)
	}
	id, writer := r.conn.RecordID(name), r.conn.node.ID
	list, err := r.conn.Eval(ctx, changeScript, r.keys(), id, was.kept(), writer, r.conn.pack(id, body), r.conn.pack(logKey, entry),
		rand.Text()[:8], r.known(), strconv.Itoa(MostRecords), strconv.Itoa(MostEntries))
	if err != nil {
		return Version{}, err
	}
	switch {
	case len(list) == 2 && list[0] == "done":
		v, err := versionOf(list[1], writer)
		if err == nil {
			r.learn([]Record{{name, v, body}})
		}
		return v, err
	case len(list) == 1 && list[0] == "full":
		return Version{}, ErrFull
	case len(list) == 2 && list[0] == "conflict" && list[1] == "":
		return Version{}, &ConflictError{}
	case len(list) == 2 && list[0] == "conflict":
		now, err := r.read(id, list[1])
		if errors.Is(err, ErrLater) {
			return Version{}, err
		}
		if err != nil {
			return r.replace(ctx, name, was, body, entry, list[1])
		}
		if now.Version.Compare(r.copy.Version(name)) > 0 {
			r.learn([]Record{now})
		}
		return Version{}, &ConflictError{&now}
	}
	return Version{}, fmt.Errorf("fleet: the store answered a change with %.200q", list)
}

// replace changes a record in whose place the store has something that no node can
// read: it counts as absent.
func (r *Records) replace(ctx context.Context, name string, was Version, body, entry []byte, there string) (Version, error) {
	counter, rest, _ := strings.Cut(there, " ")
	writer, _, _ := strings.Cut(rest, " ")
	v, err := versionOf(counter, writer)
	if err != nil || v == was {
		return Version{}, fmt.Errorf("fleet: what the store has of this record cannot be read: %.100q", there)
	}
	if was != r.copy.Version(name) {
		return Version{}, &ConflictError{}
	}
	return r.change(ctx, name, v, body, entry)
}

func (r *Records) keys() []string {
	return []string{r.conn.Key(recordsKey), r.conn.Key(logKey)}
}

// known returns the largest number that this node knows, which the store does not go
// below when it has lost its own.
func (r *Records) known() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strconv.FormatInt(r.most, 10)
}

// read reads a record as it is in the store.
func (r *Records) read(id, text string) (Record, error) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 || len(text) > longestKept {
		return Record{}, errors.New("fleet: a record in the store is not of this form")
	}
	v, err := versionOf(parts[0], parts[1])
	if err != nil {
		return Record{}, err
	}
	if !plausible(v.Counter, r.now()) {
		return Record{}, fmt.Errorf("fleet: a record in the store has version %v, to which no store has counted", v)
	}
	body, err := r.conn.unpack(id, parts[2])
	if err != nil {
		return Record{}, err
	}
	name, err := r.copy.NameOf(body)
	if err != nil {
		return Record{}, err
	}
	if r.conn.RecordID(name) != id {
		return Record{}, errors.New("fleet: a record in the store is not where its name says")
	}
	return Record{name, v, body}, nil
}
