// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/fleet"
)

// ErrNotWritten is the error of [Log.Change] if the log could not be written, so that the
// change was not made.
var ErrNotWritten = errors.New("nothing was changed, as it cannot be written down")

// ErrUnknown is the error of a change that may have been made.
var ErrUnknown = errors.New("the store has not answered, so that it is not known whether this was changed; look at the key in some seconds before you repeat it")

// Change writes a change to the log of this node and makes it. do reports whether it has sent the
// entry to the other nodes. If it has not, Change sends it, which may take until later for a
// change on which they need not act.
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
