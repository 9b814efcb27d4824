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
	mostFields   = 4 * MostRecords // of the hash
	versionsOnce = 2000            // in one call
	fetchedOnce  = 1000            // records in one call, and
	fetchedBytes = 1 << 20
	tidyEvery    = time.Hour

	mostLearnt = 16 << 20 // bytes of records that are put into the copy at once
)

// follow reads the log from the entry up to which the copy has read. Where that is not
// in it any more the copy is compared with the store.
func (r *Records) follow(ctx context.Context, have head, now time.Time) error {
	list, err := r.conn.Eval(ctx, logScript, r.keys(), strconv.FormatInt(have.number, 10), strconv.Itoa(MostEntries), strconv.Itoa(mostRead))
	if err != nil {
		return err
	}
	var entries []logged
	found, all := false, false
	for _, text := range list {
		e, err := r.entry(text)
		if err != nil && !errors.Is(err, errSeal) && !errors.Is(err, ErrLater) {
			continue // garbage: the head is looked for further on
		}
		if found = e.head == have; found {
			break
		}
		all = all || e.all || errors.Is(err, ErrLater)
		if err != nil {
			e.Body = nil
		}
		entries = append(entries, e)
	}
	if !found || all || len(entries) == 0 { // in the last case somebody else has written the head
		return r.compare(ctx, now)
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

// fetch reads records and puts them into the copy, together: a node makes each change of
// its own active at a cost. If it fails those that were read are kept. Those that cannot
// be used are left out, and reported.
func (r *Records) fetch(ctx context.Context, ids []string) error {
	var all []Record
	defer func() { r.learn(all) }()
	size := 0
	for len(ids) > 0 {
		part := ids[:min(len(ids), fetchedOnce)]
		list, err := r.conn.Eval(ctx, fetchScript, r.keys(), append([]string{strconv.Itoa(fetchedBytes)}, part...)...)
		if err != nil {
			return err
		}
		if len(list) == 0 || len(list) > len(part) {
			return fmt.Errorf("fleet: the store answered for %d records of %d", len(list), len(part))
		}
		ids = ids[len(list):]
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
	var gone, implausible []string
	for _, own := range r.copy.All() {
		if !plausible(own.Version.Counter, now) {
			implausible = append(implausible, own.Name) // nothing would ever be newer
			continue
		}
		r.raise(own.Version.Counter)
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
	if len(implausible) > 0 {
		r.copy.Drop(implausible, errImplausible)
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

// versions returns the versions of the records in the store, by their IDs, and the head
// from before they were read.
func (r *Records) versions(ctx context.Context) (map[string]Version, head, error) {
	ids, err := r.conn.Eval(ctx, namesScript, r.keys(), strconv.Itoa(mostFields))
	if err != nil {
		return nil, head{}, err
	}
	if len(ids) == 0 {
		return nil, head{}, fmt.Errorf("fleet: the store has more records than the %d that nodes write; delete %s: nodes put theirs back", MostRecords, r.conn.Key(recordsKey))
	}
	at, _ := parseHead(ids[0])
	ids = ids[1:]
	all := make(map[string]Version, len(ids))
	for part := range slices.Chunk(ids, versionsOnce) {
		list, err := r.conn.Eval(ctx, versionsScript, r.keys(), part...)
		if err != nil {
			return nil, at, err
		}
		if len(list) != len(part) {
			return nil, at, fmt.Errorf("fleet: the store has %d versions of %d records", len(list), len(part))
		}
		for i, text := range list {
			counter, writer, _ := strings.Cut(text, " ")
			if v, err := versionOf(counter, writer); err == nil { // else it counts as absent
				all[part[i]] = v
			}
		}
	}
	return all, at, nil
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
		entry = r.conn.pack(logKey, r.copy.Refill(owes))
	}
	args := []string{r.conn.node.ID, rand.Text()[:8], r.known(), strconv.Itoa(MostRecords), strconv.Itoa(MostEntries), entry}
	for _, own := range part {
		id := r.conn.RecordID(own.Name)
		args = append(args, id, strconv.FormatInt(own.Version.Counter, 10), own.Version.Writer, r.conn.pack(id, own.Body))
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
