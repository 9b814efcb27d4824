// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/sluicegate/sluice/server/internal/fleet"
)

// Bounds of the texts of a change, in bytes. They are kept for long, and sent to all nodes.
const (
	mostReason = 1000
	mostAuthor = 100
	// mostEntry is the most of an override, or of an entry of the log, that nodes share.
	mostEntry = 8000
)

// Change describes a change: its author and its reason.
type Change struct {
	Reason string `json:"reason,omitempty"`
	Author string `json:"author"`
}

// check returns an error if a text of the change is not valid.
func (c *Change) check() error {
	var faults []error
	if c.Author == "" {
		faults = append(faults, errors.New("author is missing: the audit log names one; give --author"))
	}
	for _, text := range []struct {
		name, text string
		most       int
	}{{"author", c.Author, mostAuthor}, {"reason", c.Reason, mostReason}} {
		switch {
		case len(text.text) > text.most:
			faults = append(faults, fmt.Errorf("%s has %d bytes; at most %d are kept: write a shorter one", text.name, len(text.text), text.most))
		case strings.ContainsFunc(text.text, unicode.IsControl):
			faults = append(faults, fmt.Errorf("%s has a control character, such as a line break; write it in one line", text.name))
		}
	}
	return errors.Join(faults...)
}

// sharable returns an error if nodes cannot share an override and the entry of its change.
func sharable(node fleet.Node, o *StoredOverride, e AuditEntry) error {
	body, err := o.body()
	if err != nil {
		return fmt.Errorf("override: %w", err)
	}
	e.Remote, e.Time = strings.Repeat("x", 64), o.Added // as long as they can be
	if n := max(len(body), len(sharedEntry(node, e))); n > mostEntry {
		return fmt.Errorf("override: with its key and reason it takes %d bytes; nodes share at most %d: write a shorter reason, or make it for each node (--this-node, or this_node in the document)", n, mostEntry)
	}
	return nil
}

// split returns an entry about keys as entries that are short enough for nodes to share.
func split(node fleet.Node, e AuditEntry, keys []KeyState) (parts []AuditEntry) {
	for len(keys) > 0 {
		n := len(keys)
		for ; ; n = (n + 1) / 2 {
			e.Detail = map[string]any{"keys": keys[:n]}
			if n == 1 || len(sharedEntry(node, e)) <= mostEntry {
				break
			}
		}
		parts, keys = append(parts, e), keys[n:]
	}
	return parts
}

// errShort is the error of an entry that is too long to name its key to other nodes.
var errShort = errors.New("the key is too long to be named to other nodes")

// shortEntry is sharedEntry without the parts for which there is no room.
func shortEntry(node fleet.Node, e AuditEntry) (text []byte, short bool) {
	if text = sharedEntry(node, e); len(text) <= mostEntry {
		return text, false
	}
	e.Detail = map[string]any{"shortened": true}
	if len(e.Error) > mostReason {
		e.Error = strings.ToValidUTF8(e.Error[:mostReason], "") + "…"
	}
	return sharedEntry(node, e), true
}
