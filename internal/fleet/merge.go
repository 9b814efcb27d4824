// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	scanCount = 512 // fields of a hash in one call
	mostPages = 4 * MostRecords / scanCount
	tidyEvery = time.Hour

	mostLearnt = 16 << 20 // bytes of records that are put into the copy at once
)

// follow reads the log from the entry up to which the copy has read. Where that is not
// in it any more the copy is compared with the store.
func (r *Records) follow(ctx context.Context, have head, now time.Time) error {
	list, err := r.conn.Eval(ctx, logScript, r.keys(), strconv.FormatInt(have.number, 10), strconv.Itoa(MostEntries))
	if err != nil {
		return err
	}
	var entries []logged
	found, several := false, false
	for _, text := range list {
		e, err := r.entry(text)
		if err != nil && !errors.Is(err, errSeal) {
			continue // garbage: the head is looked for further on
		}
		if found = e.head == have; found {
			break
		}
		several = several || e.several && !e.Own
		if err != nil {
			e.Body = nil
		}
		entries = append(entries, e)
	}
	if !found || several {
		return r.compare(ctx, now)
	}
	if len(entries) == 0 {
		return errors.New("fleet: the log ends before its head")
	}
	var ids []string
	for _, e := range entries {
		if e.record != "" && !slices.Contains(ids, e.record) {
			ids = append(ids, e.record)
		}
	}
	if err := r.fetch(ctx, ids); err != nil {
		return err
	}
	for _, e := range slices.Backward(entries) {
		if !e.Own && e.Body != nil {
			r.copy.Heard(e.Entry)
		}
	}
	r.reached(entries[0].head, now)
	return nil
}

// fetch reads records and puts them into the copy. Those that cannot be used are left
// out, and reported.
func (r *Records) fetch(ctx context.Context, ids []string) error {
	var all []Record
	size := 0
	for part := range slices.Chunk(ids, mostAtOnce) {
		list, err := r.conn.Eval(ctx, fetchScript, r.keys(), part...)
		if err != nil {
			return err
		}
		if len(list) != len(part) {
			return fmt.Errorf("fleet: the store answered for %d records instead of %d", len(list), len(part))
		}
		for i, text := range list {
			if text == "" {
				continue // it is gone again
			}
			record, err := r.read(part[i], text)
			if err != nil {
				r.conn.warn("what another node shares cannot be used here", err)
				continue
			}
			all, size = append(all, record), size+len(text)
		}
		if size > mostLearnt {
			r.learn(all)
			all, size = nil, 0
		}
	}
	r.learn(all) // together: a node makes each change of its own active at a cost
	return nil
}

// compare makes the copy and the store equal: of each record the larger version is
// right.
func (r *Records) compare(ctx context.Context, now time.Time) error {
	there, at, err := r.versions(ctx)
	if err == nil && at == (head{}) { // who begins a log makes its first entry
		if err = r.merge(ctx, nil); err == nil {
			there, at, err = r.versions(ctx)
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	stale := now.Sub(r.last) > MostUnconfirmed
	r.mu.Unlock()
	var push []Record
	var gone []string
	for _, own := range r.copy.All() {
		id := r.conn.RecordID(own.Name)
		v, ok := there[id]
		delete(there, id)
		switch c := own.Version.Compare(v); {
		case !ok && stale:
			gone = append(gone, own.Name)
		case c > 0:
			push = append(push, own)
		case c < 0:
			there[id] = v
		}
	}
	fetch := make([]string, 0, len(there))
	for id := range there {
		fetch = append(fetch, id)
	}
	if err := r.fetch(ctx, fetch); err != nil {
		return err
	}
	if len(gone) > 0 {
		r.copy.Drop(gone, ErrStale)
	}
	if err := r.push(ctx, push); err != nil {
		return err
	}
	r.copy.Missed()
	r.reached(at, now)
	return nil
}

// versions returns the versions of all records in the store, by their IDs, and the head
// from before they were read.
func (r *Records) versions(ctx context.Context) (map[string]Version, head, error) {
	all := make(map[string]Version)
	var first head
	cursor := "0"
	for page := range mostPages {
		list, err := r.conn.Eval(ctx, scanScript, r.keys(), cursor, strconv.Itoa(scanCount))
		if err != nil {
			return nil, first, err
		}
		if len(list) < 2 || len(list)%2 != 0 {
			return nil, first, fmt.Errorf("fleet: the store listed %d values", len(list))
		}
		if page == 0 {
			first, _ = parseHead(list[1])
		}
		for pair := range slices.Chunk(list[2:], 2) {
			var v Version
			if len(pair[1]) < 64 {
				counter, writer, _ := strings.Cut(pair[1], " ")
				v, _ = versionOf(counter, writer) // zero: older than any
			}
			if len(all) < 2*MostRecords {
				all[pair[0]] = v
			}
		}
		if cursor = list[0]; cursor == "0" {
			return all, first, nil
		}
	}
	return nil, first, fmt.Errorf("fleet: the store has more records than the %d that nodes write; delete %s: nodes put theirs back", MostRecords, r.conn.Key(recordsKey))
}

// push puts records of the copy into the store that are newer than its own. One entry
// in the log says so, with the last.
func (r *Records) push(ctx context.Context, all []Record) error {
	for part := range slices.Chunk(all, mostAtOnce) {
		if err := r.merge(ctx, part); err != nil {
			return err
		}
	}
	r.mu.Lock()
	owes := r.owes
	r.mu.Unlock()
	if owes == 0 {
		return nil
	}
	return r.merge(ctx, nil)
}

// merge puts some records into the store, or writes the entry for those before.
func (r *Records) merge(ctx context.Context, part []Record) error {
	r.mu.Lock()
	owes := r.owes
	r.mu.Unlock()
	entry := ""
	if len(part) == 0 {
		entry = r.conn.Seal(logKey, r.copy.Refill(owes))
	}
	args := []string{r.conn.node.ID, rand.Text()[:8], r.known(), strconv.Itoa(MostRecords), strconv.Itoa(MostEntries), entry}
	for _, own := range part {
		id := r.conn.RecordID(own.Name)
		args = append(args, id, strconv.FormatInt(own.Version.Counter, 10), own.Version.Writer, r.conn.Seal(id, own.Body))
	}
	list, err := r.conn.Eval(ctx, mergeScript, r.keys(), args...)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(list[0])
	if err != nil {
		return fmt.Errorf("fleet: the store answered what nodes put back: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owes += n; len(part) == 0 {
		r.owes = 0
	}
	return nil
}

// tidyUp removes what has been over for so long that no node brings it back.
func (r *Records) tidyUp(ctx context.Context, now time.Time) {
	r.mu.Lock()
	due := now.Sub(r.tidy) >= tidyEvery
	if due {
		r.tidy = now
	}
	r.mu.Unlock()
	if !due {
		return
	}
	for part := range slices.Chunk(r.copy.Over(now.Add(-KeepRemoved)), mostAtOnce) {
		var args []string
		for _, name := range part {
			args = append(args, r.conn.RecordID(name), r.copy.Version(name).kept())
		}
		if _, err := r.conn.Eval(ctx, dropScript, r.keys(), args...); err != nil {
			return // with the next hour
		}
		r.copy.Drop(part, nil)
	}
}
