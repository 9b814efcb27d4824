// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/json"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

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
		t, err := k.One(p, nil)
		if err != nil {
			continue // this node's rules have no such key, so it remembers nothing
		}
		for _, tier := range t.Tiers(now) {
			if s := t.Set(tier, now); s != nil { // all tiers have one scope
				charges = append(charges, t.Charge(s))
				break
			}
		}
	}
	return charges
}
