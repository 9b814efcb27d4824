// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// ErrNotWritten is the error of [Log.Change] if the log could not be written, so that the
// change was not made.
var ErrNotWritten = errors.New("nothing was changed: the audit log cannot be written")

// ErrUnknown is the error of a change that may have been made.
var ErrUnknown = errors.New("the store has not answered, and may have made the change; look at the key in some seconds before you repeat it")

// Change writes a change to the log of this node and makes it. do reports whether it has sent
// the entry to the other nodes. If it has not, Change sends it; if that fails, the shared log
// sends it later.
func (l *Log) Change(ctx context.Context, e Entry, do func(*Entry) (told bool, err error)) error {
	e.Time = time.Now().UTC()
	if err := l.Write(e); err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	told, err := do(&e)
	if err != nil {
		e.Error, e.Unknown, told = err.Error(), errors.Is(err, ErrUnknown), false
		e.Time = time.Now().UTC()
		err = errors.Join(err, l.Write(e))
	}
	if !told {
		_ = l.Tell(ctx, e) // the log tries again
	}
	return err
}

// Tell writes an entry to the log that the nodes share, if there is one.
func (l *Log) Tell(ctx context.Context, e Entry) error {
	if l.Records == nil {
		return nil
	}
	entry, short := shortText(l.Node, e)
	if err := l.Records.Publish(ctx, entry); err != nil || !short {
		return err
	}
	return errShort
}

// List is the last changes.
type List struct {
	Entries []Shared `json:"entries"` // the latest first
	// ThisNodeOnly reports whether these are only the changes made through this node since
	// its start: its store is in this process, or cannot be asked. Problem says so then.
	ThisNodeOnly bool   `json:"this_node_only"`
	Problem      string `json:"problem,omitempty"`
}

// List returns the last n changes.
func (l *Log) List(ctx context.Context, n int) List {
	list := List{Entries: []Shared{}}
	if l.Records != nil {
		entries, err := l.Records.Entries(ctx, n)
		if err == nil {
			for _, e := range entries {
				s := Shared{}
				if err := json.Unmarshal(e.Body, &s); err == nil { // otherwise no node can list it
					s.Number = e.Number
					list.Entries = append(list.Entries, s)
				}
			}
			return list
		}
		list.Problem = err.Error()
	}
	list.ThisNodeOnly = true
	for _, e := range slices.Backward(l.last()) {
		if len(list.Entries) < n {
			list.Entries = append(list.Entries, Shared{Entry: e, Node: l.Node.Name, NodeID: l.Node.ID})
		}
	}
	return list
}

// MaxEntry is the most bytes of an entry that nodes share.
const MaxEntry = 8000

// Shared is a change in the list that all nodes of a store share.
type Shared struct {
	Number int64 `json:"number,omitempty"` // position in the shared log
	Entry
	Node   string `json:"node,omitempty"` // host of the node that made the change
	NodeID string `json:"node_id,omitempty"`
}

// Text returns the text of an entry in the log that nodes share.
func Text(node fleet.Node, e Entry) []byte {
	text, err := json.Marshal(Shared{Entry: e, Node: node.Name, NodeID: node.ID})
	if err != nil { // JSON cannot write a detail
		text, _ = json.Marshal(Shared{Entry: Entry{Time: e.Time, Action: e.Action, Error: err.Error()}})
	}
	return text
}

// Split returns an entry about keys as entries that are short enough for nodes to share.
func Split[K any](node fleet.Node, e Entry, keys []K) (parts []Entry) {
	for len(keys) > 0 {
		n := len(keys)
		for ; ; n = (n + 1) / 2 {
			e.Detail = map[string]any{"keys": keys[:n]}
			if n == 1 || len(Text(node, e)) <= MaxEntry {
				break
			}
		}
		parts, keys = append(parts, e), keys[n:]
	}
	return parts
}

const longError = 1000 // bytes of an error in an entry that is too long

// errShort is the error of an entry that is too long to name its key to other nodes.
var errShort = errors.New("the key is too long to be named to other nodes")

// shortText is Text without the parts for which there is no room.
func shortText(node fleet.Node, e Entry) (text []byte, short bool) {
	if text = Text(node, e); len(text) <= MaxEntry {
		return text, false
	}
	e.Detail = map[string]any{"shortened": true}
	if len(e.Error) > longError {
		e.Error = strings.ToValidUTF8(e.Error[:longError], "") + "…"
	}
	return Text(node, e), true
}

// Entry is one change.
type Entry struct {
	Time   time.Time      `json:"time"` // set by [Log.Write] if zero
	Action string         `json:"action"`
	Author string         `json:"author,omitempty"`
	Remote string         `json:"remote,omitempty"` // address of the caller
	Reason string         `json:"reason,omitempty"`
	Detail map[string]any `json:"detail,omitempty"`
	Error  string         `json:"error,omitempty"` // why it was not made
	// Unknown reports that the change may have been made nevertheless: the store has not
	// answered.
	Unknown bool `json:"unknown,omitempty"`
}

// Log is a log of changes, with a line of JSON for each. It only appends to its
// file. It is safe for concurrent use.
type Log struct {
	// Node is this node, and Records are the records that the nodes of a shared store share, nil if
	// there are no others. Both are set before the log is used.
	Node    fleet.Node
	Records *fleet.Records

	mu   sync.Mutex
	to   io.Writer
	file *os.File // nil if to is not a file of the log's own
	path string
	sync bool // to is a regular file: a pipe cannot be synced
	torn bool // the last line is incomplete
	// fault is the reason why the last entry could not be written, nil if it was.
	fault error
	of    []writtenEntry // the last entries
	size  int            // bytes of their lines
}

type writtenEntry struct {
	Entry
	size int
}

// Bounds of the entries kept in memory for GET /v1/audit: their number, and bytes.
const (
	mostEntries    = 1000
	mostEntryBytes = 4 << 20
)

// last returns the last entries, the latest last.
func (l *Log) last() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Entry, len(l.of))
	for i := range l.of {
		all[i] = l.of[i].Entry
	}
	return all
}

// remember keeps an entry in memory, and drops the oldest ones beyond the bounds.
func (l *Log) remember(e Entry, size int) {
	l.of, l.size = append(l.of, writtenEntry{e, size}), l.size+size
	for len(l.of) > mostEntries || l.size > mostEntryBytes && len(l.of) > 1 {
		l.size -= l.of[0].size
		l.of[0] = writtenEntry{}
		l.of = l.of[1:]
	}
}

// New returns a Log that writes to w.
func New(w io.Writer) *Log { return &Log{to: w} }

// Open returns a Log that appends to a file. It creates the file if there is none,
// readable by its owner only, because it may hold keys. The path may also name an open file
// of the process, such as /dev/stdout. The caller closes the log.
func Open(path string) (*Log, error) {
	l := &Log{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

// open opens the path, and replaces the file before.
func (l *Log) open() error {
	f, err := regular.Append(l.path)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	info, err := f.Stat()
	plain := err == nil && info.Mode().IsRegular()
	torn := false
	if plain {
		torn, err = regular.EndsTorn(l.path, info.Size())
	}
	if err != nil {
		return fmt.Errorf("audit: %w", errors.Join(err, f.Close()))
	}
	l.to, l.file, l.sync, l.torn = f, f, plain, torn
	return nil
}

// Reopen opens the path again, because the file may have been moved away. After an
// error the log keeps the file it has. Reopen does nothing to a log without a file of its own.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.file
	if old == nil {
		return nil
	}
	if err := l.open(); err != nil {
		return err
	}
	if err := old.Close(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Write appends an entry as one line. Call it before a change, and make the change only if
// Write succeeds. If the change fails, write a second entry.
func (l *Log) Write(e Entry) error {
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = l.write(e, line)
	return l.fault
}

// Fault returns the reason why the last entry could not be written, nil if it was.
func (l *Log) Fault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// write appends the line of an entry.
func (l *Log) write(e Entry, line []byte) error {
	if l.torn { // an incomplete line must not spoil this one, too
		line = append([]byte("\n"), line...)
	}
	if n, err := l.to.Write(append(line, '\n')); err != nil {
		l.torn = l.torn || n > 0
		return fmt.Errorf("audit: %w", err)
	}
	l.torn = false
	l.remember(e, len(line))
	if !l.sync {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Close closes the file. Later calls of Write return an error.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
