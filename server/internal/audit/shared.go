// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/sluicegate/sluice/server/internal/fleet"
)

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
