// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// SharedEntry is a change in the list that all nodes of a store share.
type SharedEntry struct {
	Number int64 `json:"number,omitempty"` // position in the shared log
	AuditEntry
	Node   string `json:"node,omitempty"` // host of the node that made the change
	NodeID string `json:"node_id,omitempty"`
}

// sharedEntry returns the text of an entry in the log that nodes share.
func sharedEntry(node fleet.Node, e AuditEntry) []byte {
	text, err := json.Marshal(SharedEntry{AuditEntry: e, Node: node.Name, NodeID: node.ID})
	if err != nil { // JSON cannot write a detail
		text, _ = json.Marshal(SharedEntry{AuditEntry: AuditEntry{Time: e.Time, Action: e.Action, Error: err.Error()}})
	}
	return text
}

// Audit is the answer of GET /v1/audit.
type Audit struct {
	Entries []SharedEntry `json:"entries"` // the latest first
	// ThisNodeOnly reports whether these are only the changes made through this node since
	// its start: its store is in this process, or cannot be asked. Problem says so then.
	ThisNodeOnly bool   `json:"this_node_only"`
	Problem      string `json:"problem,omitempty"`
}

const defaultEntries = 100

func (a *API) listAudit(w http.ResponseWriter, r *http.Request) {
	n := defaultEntries
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > fleet.MostEntries {
			fail(w, http.StatusBadRequest, fmt.Errorf("n must be 1 to %d", fleet.MostEntries))
			return
		}
	}
	list := Audit{Entries: []SharedEntry{}}
	if a.o.Records != nil {
		entries, err := a.o.Records.Entries(r.Context(), n)
		if err == nil {
			for _, e := range entries {
				s := SharedEntry{}
				if err := json.Unmarshal(e.Body, &s); err == nil { // otherwise no node can list it
					s.Number = e.Number
					list.Entries = append(list.Entries, s)
				}
			}
			answer(w, http.StatusOK, list)
			return
		}
		list.Problem = err.Error()
	}
	list.ThisNodeOnly = true
	for _, e := range slices.Backward(a.o.Audit.last()) {
		if len(list.Entries) < n {
			list.Entries = append(list.Entries, SharedEntry{AuditEntry: e, Node: a.o.Node.Name, NodeID: a.o.Node.ID})
		}
	}
	answer(w, http.StatusOK, list)
}

// Touched returns the charges of the keys whose spent units a change of another node has
// altered, from the entry of that node.
func Touched(p *policy.Policy, entry []byte, now time.Time) (charges []sluice.Charge) {
	var e struct {
		Action string
		Detail struct {
			Keys []Key
			Key  Key
		}
	}
	if err := json.Unmarshal(entry, &e); err != nil || e.Action != "reset" && e.Action != "add" {
		return nil
	}
	for _, k := range append(e.Detail.Keys, e.Detail.Key) {
		if k.Rule == "" {
			continue
		}
		t, err := k.one(p)
		if err != nil {
			continue // this node's rules have no such key, so it remembers nothing
		}
		for _, tier := range t.tiers(now) {
			if s := t.set(tier, now); s != nil { // all tiers have one scope
				charges = append(charges, t.charge(s))
				break
			}
		}
	}
	return charges
}
