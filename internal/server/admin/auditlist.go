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
	"github.com/sluicegate/sluice/internal/fleet"
	"github.com/sluicegate/sluice/policy"
)

// SharedEntry is a change as all nodes of a store list it.
type SharedEntry struct {
	Number int64 `json:"number,omitempty"` // in the shared log
	AuditEntry
	Node   string `json:"node,omitempty"` // that was asked: its host
	NodeID string `json:"node_id,omitempty"`
}

// sharedEntry returns how an entry is written to the log that nodes share.
func sharedEntry(node fleet.Node, e AuditEntry) []byte {
	text, err := json.Marshal(SharedEntry{AuditEntry: e, Node: node.Name, NodeID: node.ID})
	if err != nil { // a detail that JSON cannot write
		text, _ = json.Marshal(SharedEntry{AuditEntry: AuditEntry{Time: e.Time, Action: e.Action, Error: err.Error()}})
	}
	return text
}

// Audit is the answer of GET /v1/audit.
type Audit struct {
	Entries []SharedEntry `json:"entries"` // the latest first
	// ThisNodeOnly is whether these are the changes made through this node since its
	// start: its store is in this process, or cannot be asked, which Problem says.
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
				if err := json.Unmarshal(e.Body, &s); err == nil { // else nobody can list it
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

// Touched returns the charges of the keys whose spending a change has altered, by the
// entry that another node has written.
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
			continue // this node's rules have no such key, so that it remembers nothing
		}
		for _, tier := range t.tiers(now) {
			if c, err := p.Charge(k.Rule, k.Level, t.values, tier, now); err == nil { // of one scope: any will do
				charges = append(charges, c)
				break
			}
		}
	}
	return charges
}
