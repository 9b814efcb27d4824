// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

const (
	noRecord = "-"
	several  = "*" // records were put back
	unknown  = "!" // what has changed is to be found by comparing

	mostRead = 8 << 20 // bytes of the log in one call
)

// waiting is an entry that is to be written.
type waiting struct{ record, sealed string }

// Publish writes an entry to the log. If that fails it is tried again with the next
// polls, in bounded number. In the place of one that is too long there is one that has
// the other nodes compare, as where they have missed some.
func (r *Records) Publish(ctx context.Context, entry []byte) error {
	w := waiting{noRecord, r.conn.pack(logKey, entry)}
	if len(w.sealed) > longestBody {
		r.conn.log.Warn("an entry is too long for the log that nodes share: this node's audit log alone has it",
			slog.Int("bytes", len(entry)), slog.Int("most", longestBody))
		w = waiting{unknown, r.conn.pack(logKey, nil)}
	}
	err := r.down()
	if err == nil {
		err = r.append(ctx, w)
	}
	if err != nil {
		r.mu.Lock()
		if r.wait = append(r.wait, w); len(r.wait) > mostPending {
			r.wait = r.wait[1:]
		}
		r.mu.Unlock()
	}
	return err
}

func (r *Records) append(ctx context.Context, w waiting) error {
	_, err := r.conn.Eval(ctx, publishScript, r.keys(), r.conn.node.ID, w.record, w.sealed, rand.Text()[:8], r.known(), strconv.Itoa(MostEntries))
	return err
}

// flush writes the entries that wait.
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
			r.wait = append([]waiting{first}, r.wait...)
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
	list, err := r.conn.Eval(ctx, logScript, r.keys(), "0", strconv.Itoa(min(most, MostEntries)), strconv.Itoa(mostRead))
	if err != nil {
		return nil, err
	}
	all := make([]Entry, 0, len(list))
	for _, text := range list {
		if e, err := r.entry(text); err == nil && len(e.Body) > 0 { // one that cannot be read is nobody's here
			all = append(all, e.Entry)
		}
	}
	return all, nil
}

// logged is an entry as it is in the log.
type logged struct {
	Entry
	head
	record string // the ID of what was changed, empty if it is no record
	all    bool   // each reader compares all
}

// entry reads what [changeScript] has written.
func (r *Records) entry(text string) (l logged, err error) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) != 5 || len(text) > longestKept {
		return l, errors.New("fleet: an entry of the log is not of this form")
	}
	if l.number, err = strconv.ParseInt(parts[0], 10, 64); err != nil {
		return l, fmt.Errorf("fleet: an entry of the log: %w", err)
	}
	l.id, l.Number, l.Own = parts[1], l.number, parts[2] == r.conn.node.ID
	switch parts[3] {
	case noRecord:
	case several: // who has put them back need not compare
		l.all = !l.Own
	case unknown:
		l.all = true
	default:
		l.record = parts[3]
	}
	l.Body, err = r.conn.unpack(logKey, parts[4])
	return l, err
}
