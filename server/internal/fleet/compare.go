// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"
)

const (
	mostFields  = 8 * MostRecords // of the hash
	fetchedOnce = 1000            // records in one call that reads
	writtenOnce = 1000            // records in one call that writes
	bytesOnce   = 1 << 20         // of the records in one call

	mostLearnt = 16 << 20 // bytes of records that are put into the copy at once

	mostTries = 5 // attempts at a comparison while the store changes
)

// errChanged is the error of a comparison during which the store has changed.
var errChanged = errors.New("fleet: the store changes while this node compares its copy; the next poll tries again")

// catchUp brings the copy up to date. It follows the log if the log reaches back to the copy's
// revision, and this node can read the entry of that revision. Otherwise it compares the copy
// with the store.
func (r *Records) catchUp(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("fleet: %w", ctx.Err())
	}
	for range mostTries {
		if err := r.catchUpOnce(ctx); !errors.Is(err, errChanged) {
			return err
		}
	}
	return errChanged
}

func (r *Records) catchUpOnce(ctx context.Context) error {
	have := r.revision()
	log, err := r.since(ctx, have, MostEntries)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(log.entries, func(e logged) bool { return e.version == have })
	if at >= 0 && log.entries[at].Body != nil && log.revision >= have && !slices.ContainsFunc(log.entries[:at], func(e logged) bool { return e.anew }) {
		return r.follow(ctx, log.entries[:at], log.revision)
	}
	return r.compare(ctx, log, at >= 0)
}

// reached records the revision of the copy.
func (r *Records) reached(v Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have = v
}

// follow reads the records that entries of the log name, and drops those that the store no
// longer has.
func (r *Records) follow(ctx context.Context, entries []logged, revision Version) error {
	var ids []string
	for _, e := range entries {
		if e.record != "" && !slices.Contains(ids, e.record) {
			ids = append(ids, e.record)
		}
	}
	found, err := r.fetch(ctx, ids, revision)
	if err != nil {
		return err
	}
	if len(found) < len(ids) {
		var gone []string
		for name, own := range r.copy.Versions() {
			id := r.conn.RecordID(name)
			if _, ok := found[id]; !ok && own <= revision && slices.Contains(ids, id) {
				gone = append(gone, name)
			}
		}
		r.copy.Drop(gone)
	}
	for _, e := range slices.Backward(entries) {
		if !e.Own && e.Body != nil {
			r.copy.Heard(e.Entry)
		}
	}
	r.reached(revision)
	return nil
}

// fetch reads records and puts them into the copy together, as each activation of changes has
// a cost. It returns the versions of the records that the store has, by ID; 0 for a value that
// no node has written. It leaves out, and logs, records that cannot be used. If the store's
// revision is below the given one, the store has lost its data, and fetch fails.
func (r *Records) fetch(ctx context.Context, ids []string, revision Version) (map[string]Version, error) {
	found := make(map[string]Version, len(ids))
	var learned []Record
	defer func() { r.copy.Learn(learned) }() // also if a later call fails
	size := 0
	for len(ids) > 0 {
		part := ids[:min(len(ids), fetchedOnce)]
		at, list, err := r.eval(ctx, fetchScript, append([]string{strconv.Itoa(bytesOnce)}, part...)...)
		if err == nil && at < revision {
			err = errLost
		}
		if err == nil && (len(list) == 0 || len(list) > len(part)) {
			err = fmt.Errorf("fleet: the store answered for %d records of %d", len(list), len(part))
		}
		if err != nil {
			return nil, err
		}
		ids = ids[len(list):]
		for i, text := range list {
			if text == "" {
				continue
			}
			record, err := r.read(part[i], text)
			found[part[i]] = record.Version
			if err != nil {
				r.conn.warn("a record of another node cannot be used here", err)
				continue
			}
			learned, size = append(learned, record), size+len(text)
		}
		if size > mostLearnt {
			r.copy.Learn(learned)
			learned, size = nil, 0
		}
	}
	return found, nil
}

// compare makes the copy and the store equal: of two versions of a record the larger one is
// right. If the store lacks a record, compare drops it if the log has its removal, or if the
// node was away for more entries than the log keeps. Otherwise the store has lost the record,
// and the node puts it back. reaches is whether the log has the node's last entry.
func (r *Records) compare(ctx context.Context, log logRead, reaches bool) error {
	at, ids, err := r.eval(ctx, namesScript, strconv.Itoa(mostFields))
	if err != nil {
		return err
	}
	if len(ids) == 1 && ids[0] == "full" {
		return fmt.Errorf("fleet: the store has more records than the %d that nodes write; delete %s: nodes put theirs back", MostRecords, r.conn.Key(recordsKey))
	}
	if at != log.revision { // the log that was read may lack a removal
		return errChanged
	}
	found, err := r.fetch(ctx, ids, at)
	if err != nil {
		return err
	}
	lost := at == 0 || at < r.revision()
	away := !lost && !reaches && log.full
	removed := make(map[string]Version)
	for _, e := range slices.Backward(log.entries) {
		if e.removed {
			removed[e.record] = e.version
		}
	}
	var push, gone []string
	for name, own := range r.copy.Versions() {
		id := r.conn.RecordID(name)
		switch v := found[id]; {
		case v >= own:
		case v == 0 && (away && own <= at || removed[id] > own):
			gone = append(gone, name)
		default:
			push = append(push, name)
		}
	}
	r.copy.Drop(gone)
	if at > 0 || r.revision() > 0 { // else no node has ever written an entry
		r.copy.Missed()
	}
	if at, err = r.putBack(ctx, push, at, lost); err != nil {
		return err
	}
	r.reached(at)
	return nil
}

// putBack writes the records that the store lacks, or has in an older version. If the store
// has lost its data, it writes an entry even without a record. It fails if the store's
// revision is not the given one, and returns the revision after its entries.
func (r *Records) putBack(ctx context.Context, names []string, at Version, lost bool) (Version, error) {
	wrote, behind := 0, lost && r.revision() > 0
	for lost || len(names) > 0 {
		var records []string
		size, n := 0, 0
		for ; n < min(len(names), writtenOnce) && size < bytesOnce; n++ {
			if own := r.copy.Get(names[n]); own.Version > 0 {
				id := r.conn.RecordID(own.Name)
				records = append(records, id, own.Version.String(), r.conn.pack(id, own.Body))
				size += len(own.Body)
			}
		}
		args := []string{r.revision().String(), r.conn.o.Node.ID, strconv.Itoa(MostRecords), strconv.Itoa(MostEntries), r.conn.pack(logKey, r.copy.PutBack(n)), at.String()}
		revision, list, err := r.eval(ctx, putBackScript, append(args, records...)...)
		if err != nil {
			return 0, err
		}
		if len(list) == 1 && list[0] == "changed" {
			return 0, errChanged
		}
		at = revision
		if len(list) == 1 {
			n, err := strconv.Atoi(list[0])
			if err != nil {
				return 0, fmt.Errorf("fleet: the store answered records that were put back: %w", err)
			}
			wrote += n
		}
		names, lost = names[n:], false
	}
	if wrote > 0 || behind {
		r.conn.o.Log.Warn("the store had lost changes of overrides: this node has put back the missing overrides. An override that was just removed may be active again",
			slog.String("store", r.conn.o.Target.String()), slog.Int("overrides", wrote))
	}
	return at, nil
}

// removeExpired removes the records that have expired.
func (r *Records) removeExpired(ctx context.Context, now time.Time) error {
	names := r.copy.Expired(now)
	if len(names) == 0 {
		return nil
	}
	for part := range slices.Chunk(names, writtenOnce) {
		var args []string
		for _, name := range part {
			args = append(args, r.conn.RecordID(name), r.copy.Get(name).Version.String())
		}
		if _, _, err := r.eval(ctx, dropScript, args...); err != nil {
			return err
		}
	}
	r.copy.Drop(names)
	return nil
}
