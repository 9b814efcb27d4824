// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	noRecord   = "-" // the entry changes no record
	removedID  = "~" // the record was removed
	allRecords = "*" // nodes compare all records

	mostPending = 256 // entries that wait for the store
)

// Entry is a line of the log.
type Entry struct {
	Number int64
	Own    bool // this process has written it
	Body   []byte
}

// Publish writes an entry to the log. After a failure each poll tries again; the number of
// waiting entries is bounded.
func (r *Records) Publish(ctx context.Context, entry []byte) error {
	if len(entry) > longestBody/2 {
		return fmt.Errorf("fleet: an entry of %d bytes; at most %d are shared", len(entry), longestBody/2)
	}
	packed := r.conn.pack(logKey, entry)
	err := r.down()
	if err == nil {
		err = r.append(ctx, packed)
	}
	if err != nil {
		r.mu.Lock()
		if r.wait = append(r.wait, packed); len(r.wait) > mostPending {
			r.wait = r.wait[1:]
		}
		r.mu.Unlock()
	}
	return err
}

func (r *Records) append(ctx context.Context, packed string) error {
	_, _, err := r.write(ctx, publishScript, packed, strconv.Itoa(MostEntries))
	return err
}

// flush writes the waiting entries.
func (r *Records) flush(ctx context.Context) error {
	for {
		r.mu.Lock()
		if len(r.wait) == 0 {
			r.mu.Unlock()
			return nil
		}
		first := r.wait[0]
		r.wait = r.wait[1:]
		r.mu.Unlock()
		if err := r.append(ctx, first); err != nil {
			r.mu.Lock()
			r.wait = slices.Insert(r.wait, 0, first)
			r.mu.Unlock()
			return err
		}
	}
}

// Entries returns the last entries of the log, the latest first.
func (r *Records) Entries(ctx context.Context, most int) ([]Entry, error) {
	if err := r.down(); err != nil {
		return nil, err
	}
	read, err := r.since(ctx, 0, most)
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(read.entries))
	for _, e := range read.entries {
		if len(e.Body) > 0 { // this node can read it
			list = append(list, e.Entry)
		}
	}
	return list, nil
}

// removal returns the entry of a removal after a version, nil if the log has none.
func (r *Records) removal(ctx context.Context, name string, was Version) []byte {
	read, err := r.since(ctx, was, MostEntries)
	if err != nil {
		return nil // the conflict says the rest
	}
	for _, e := range read.entries {
		if e.removed && e.record == r.conn.RecordID(name) {
			return e.Body
		}
	}
	return nil
}

// logged is an entry of the log.
type logged struct {
	Entry
	version Version
	record  string // the ID of the record that was changed; empty: none
	removed bool   // the record was removed
	anew    bool   // this node compares all records
}

// logRead holds the entries that a node has read from the log, the latest first.
type logRead struct {
	revision Version
	entries  []logged
	full     bool // the log had MostEntries, and there may have been more
}

// since reads the log back to a version. It leaves out entries that no node has written.
func (r *Records) since(ctx context.Context, from Version, most int) (read logRead, err error) {
	var list []string
	read.revision, list, err = r.eval(ctx, logScript, strconv.FormatInt(int64(from), 10), strconv.Itoa(min(most, MostEntries)))
	for _, text := range list {
		if e, err := r.entry(text); err == nil {
			read.entries = append(read.entries, e)
		}
	}
	n := len(read.entries) // an oldest entry from before secret_file was changed does not count
	read.full = len(list) == MostEntries && n > 0 && read.entries[n-1].Body != nil
	return read, err
}

// entry reads an entry. The body is empty if this node cannot read it.
func (r *Records) entry(text string) (l logged, err error) {
	parts := strings.SplitN(text, " ", 4)
	if len(parts) != 4 || len(text) > longestKept {
		return l, errors.New("fleet: an entry of the log is not of this form")
	}
	if l.version, err = ParseVersion(parts[0]); err != nil {
		return l, fmt.Errorf("fleet: an entry of the log: %w", err)
	}
	l.Number, l.Own = int64(l.version), parts[1] == r.conn.o.Node.ID
	body, err := r.conn.unpack(logKey, parts[3])
	if err == nil {
		l.Body = body
	} else if !errors.Is(err, errSeal) && !errors.Is(err, ErrLater) {
		return l, err
	}
	switch parts[2] {
	case noRecord:
	case allRecords:
		l.anew = !l.Own // its writer has compared already
	default:
		l.record, l.removed = strings.CutPrefix(parts[2], removedID)
	}
	l.anew = l.anew || errors.Is(err, ErrLater)
	return l, nil
}
