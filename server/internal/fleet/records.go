// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	recordsKey    = "overrides"
	logKey        = "log"
	revisionField = "!revision"

	// MostEntries is how many entries the log keeps.
	MostEntries = 1000
	// MostRecords is the most records, including those that have just expired.
	MostRecords = 20_000

	longestBody = 16 << 10 // bytes of a record or entry
	longestKept = longestBody + 200

	// compareTimeout is how long a comparison may take. Each of its calls may take
	// Options.Timeout.
	compareTimeout = 30 * time.Second
)

// Record is a value that all nodes keep. Of two records of one name the larger version is
// right.
type Record struct {
	Name    string // [Conn.RecordID] hashes it
	Version Version
	Body    []byte // has the name, too
}

// Copy is a node's copy of the records, as functions that are safe for concurrent use.
type Copy struct {
	// NameOf returns the name in a body, or why the body cannot be used.
	NameOf func(body []byte) (string, error)
	// Get returns a record, the zero value if the copy has none.
	Get func(name string) Record
	// Versions returns the versions of all records, by name.
	Versions func() map[string]Version
	// Learn puts the records into the copy that are newer than its own.
	Learn func([]Record)
	// Drop takes out records that were removed or have expired.
	Drop func(names []string)
	// Expired returns the names of the records that have expired. Each poll calls it.
	Expired func(now time.Time) []string
	// Heard gets the entries that other nodes have written to the log. Missed is called where
	// some of them cannot be read any more.
	Heard  func(Entry)
	Missed func()
	// PutBack returns the log entry for a number of records that this node has put back.
	PutBack func(records int) []byte
}

// Records are records that the nodes of a store share, and the log of their changes.
// It is safe for concurrent use.
type Records struct {
	conn *Conn
	copy Copy

	drift atomic.Int64  // ns from this process's clock to the store's
	turn  chan struct{} // held while the copy is brought up to date

	mu   sync.Mutex
	have Version  // the store's revision that the copy equals
	err  error    // of the last poll; nil if it left nothing to read or to write
	wait []string // entries that are to be written to the log
}

// ConflictError is the error of a change that was not made, as another change came first.
type ConflictError struct {
	Now     *Record // the record in the store; nil if there is none
	Removal []byte  // the entry of its removal; nil if the log has none
}

// Error describes the conflict.
func (e *ConflictError) Error() string {
	return "fleet: somebody else has changed this meanwhile"
}

// ErrFull is the error of a change if there is no room for another record.
var ErrFull = fmt.Errorf("fleet: the store has %d records; remove some", MostRecords)

// errLost is the error of a call during which the store has lost its data.
var errLost = errors.New("fleet: the store has lost what nodes share")

// errNotPolled is the error of Records before their first poll.
var errNotPolled = errors.New("fleet: not polled yet")

// NewRecords returns Records, and registers them.
func NewRecords(c *Conn, of Copy) *Records {
	r := &Records{conn: c, copy: of, turn: make(chan struct{}, 1), err: errNotPolled}
	for _, v := range of.Versions() { // the log has an entry of the last one
		r.have = max(r.have, v)
	}
	c.Register(Part{Marks: []Mark{{recordsKey, revisionField}}, Tick: r.tick, Timeout: compareTimeout})
	return r
}

// Synced reports whether the copy equalled the store at the last poll.
func (r *Records) Synced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err == nil && r.conn.Err() == nil
}

// Drift returns how far the store's clock is ahead of this process's.
func (r *Records) Drift() time.Duration { return time.Duration(r.drift.Load()) }

// tick reads the changes of other nodes, and writes the waiting entries.
func (r *Records) tick(ctx context.Context, t Tick) {
	if t.Err != nil {
		return
	}
	r.drift.Store(int64(time.Until(t.Now)))
	r.mu.Lock()
	same := r.err == nil && t.Values[0] != "" && t.Values[0] == r.have.String()
	r.mu.Unlock()
	var err error
	if !same {
		err = r.catchUp(ctx)
	}
	if err == nil {
		err = r.flush(ctx)
	}
	if err == nil {
		err = r.removeExpired(ctx, t.Now)
	}
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
	if err != nil && !errors.Is(err, context.Canceled) {
		r.conn.warn("what nodes share could not be read or written", err)
	}
}

// Change replaces a record that the store has in version was, and writes an entry to the log,
// or does neither. It removes the record if the body is empty. The error is a
// [*ConflictError], [ErrFull], or one of [Conn.Eval].
func (r *Records) Change(ctx context.Context, name string, was Version, body, entry []byte) (Version, error) {
	if max(len(body), len(entry)) > longestBody/2 {
		return 0, fmt.Errorf("fleet: %d and %d bytes; at most %d are shared: write a shorter reason", len(body), len(entry), longestBody/2)
	}
	if err := r.down(); err != nil {
		return 0, err
	}
	v, err := r.change(ctx, name, was, body, entry)
	c, conflict := errors.AsType[*ConflictError](err)
	if !conflict || c.Now != nil || was == 0 {
		return v, err
	}
	// Another node has removed the record, or the store has lost it.
	if err := r.catchUp(ctx); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	v, err = r.change(ctx, name, was, body, entry)
	if c, conflict = errors.AsType[*ConflictError](err); conflict && c.Now == nil {
		c.Removal = r.removal(ctx, name, was)
	}
	return v, err
}

// down returns the error of a poll that the store did not answer: a change does not wait for
// a store that hangs.
func (r *Records) down() error {
	err := r.conn.Err()
	if r.mu.Lock(); err == nil && errors.Is(r.err, context.DeadlineExceeded) {
		err = r.err
	}
	r.mu.Unlock()
	if err == nil || errors.Is(err, ErrNotSent) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

func (r *Records) change(ctx context.Context, name string, was Version, body, entry []byte) (Version, error) {
	id, packed := r.conn.RecordID(name), ""
	if len(body) > 0 {
		packed = r.conn.pack(id, body)
	}
	v, list, err := r.write(ctx, changeScript, id, was.String(), packed, r.conn.pack(logKey, entry), strconv.Itoa(MostRecords), strconv.Itoa(MostEntries))
	if err != nil {
		return 0, err
	}
	switch {
	case list[0] == "done" && packed == "":
		r.copy.Drop([]string{name})
		return v, nil
	case list[0] == "done":
		r.copy.Learn([]Record{{name, v, body}})
		return v, nil
	case list[0] == "full":
		return 0, ErrFull
	case list[0] != "conflict" || len(list) != 2:
		return 0, fmt.Errorf("fleet: the store answered a change with %.200q", list)
	case list[1] == "":
		return 0, &ConflictError{}
	}
	now, err := r.read(id, list[1])
	switch {
	case errors.Is(err, ErrLater):
		return 0, err
	case err != nil && was == r.copy.Get(name).Version && was != now.Version: // no node can read it: it counts as absent
		return r.change(ctx, name, now.Version, body, entry)
	case err != nil:
		return 0, &ConflictError{}
	}
	r.copy.Learn([]Record{now})
	return 0, &ConflictError{Now: &now}
}

// write runs a script that writes. If the store has lost its data the node puts its copy
// back first.
func (r *Records) write(ctx context.Context, s *Script, args ...string) (Version, []string, error) {
	for range 2 {
		v, list, err := r.eval(ctx, s, append([]string{r.revision().String(), r.conn.o.Node.ID}, args...)...)
		if err == nil && len(list) == 0 {
			err = errors.New("fleet: the store answered a change with nothing")
		}
		if err != nil || list[0] != "lost" {
			return v, list, err
		}
		if err := r.catchUp(ctx); err != nil {
			return 0, nil, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
	}
	return 0, nil, fmt.Errorf("%w: %w", ErrNotSent, errLost)
}

// eval runs a script and returns the store's revision and the rest of the answer.
func (r *Records) eval(ctx context.Context, s *Script, args ...string) (Version, []string, error) {
	list, err := r.conn.Eval(ctx, s, []string{r.conn.Key(recordsKey), r.conn.Key(logKey)}, args...)
	if err != nil {
		return 0, nil, err
	}
	if len(list) == 0 {
		return 0, nil, errors.New("fleet: the store answered nothing")
	}
	v, err := ParseVersion(list[0])
	return v, list[1:], err
}

// revision returns the last revision of the store that this node has read.
func (r *Records) revision() Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have
}

// read parses a record of the store. A record that cannot be read has its version, if it has
// one.
func (r *Records) read(id, text string) (now Record, err error) {
	version, kept, ok := strings.Cut(text, " ")
	if !ok || len(text) > longestKept {
		return now, errors.New("fleet: a record in the store is not of this form")
	}
	if now.Version, err = ParseVersion(version); err != nil {
		return now, err
	}
	if now.Body, err = r.conn.unpack(id, kept); err != nil {
		return now, err
	}
	if now.Name, err = r.copy.NameOf(now.Body); err != nil {
		return now, err
	}
	if r.conn.RecordID(now.Name) != id {
		return now, errors.New("fleet: a record in the store is not where its name says")
	}
	return now, nil
}

const (
	// mostVersion is above all versions that a store gives out.
	mostVersion = 1 << 49
	// versionStep bounds a version to 70 years above the store's time in ms, so that there are
	// larger ones as time passes. A server whose clock starts in 1970 can read versions of the
	// present.
	versionStep = 1 << 41
	// idLength is the length of a [Conn.RecordID].
	idLength = 24
)

// Version numbers a change of what nodes share. The store counts: each version is above
// all before it and at least the store's time in ms. The zero value stands for no record.
type Version int64

// String returns the number, and nothing for the zero value.
func (v Version) String() string {
	if v == 0 {
		return ""
	}
	return strconv.FormatInt(int64(v), 10)
}

// ParseVersion reads the text that String returns.
func ParseVersion(text string) (Version, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > mostVersion {
		return 0, fmt.Errorf("fleet: %.40q is not a version; use one that sluice has shown", text)
	}
	return Version(n), nil
}

// RecordID returns the field of the hash that keeps the record of a name. With a secret
// the field does not show the name to a reader who has no secret.
func (c *Conn) RecordID(name string) string {
	sum := sha256.Sum256([]byte(name))
	if c.hashes != nil {
		mac := hmac.New(sha256.New, c.hashes)
		mac.Write([]byte(name)) // never fails
		sum = [sha256.Size]byte(mac.Sum(nil))
	}
	return base64.RawURLEncoding.EncodeToString(sum[:idLength/4*3])
}
