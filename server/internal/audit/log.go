// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

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
	now   func() time.Time
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

// New returns an Log that writes to w.
func New(w io.Writer) *Log { return &Log{to: w, now: time.Now} }

// Open returns an Log that appends to a file. It creates the file if there is none,
// readable by its owner only, because it may hold keys. The path may also name an open file
// of the process, such as /dev/stdout. The caller closes the log.
func Open(path string) (*Log, error) {
	l := &Log{path: path, now: time.Now}
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
		e.Time = l.now().UTC()
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
