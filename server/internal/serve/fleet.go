// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// share shares overrides, resets and their audit with the other nodes if the store is shared.
func (s *server) share(overrides *admin.Overrides) {
	sh := s.store.shared
	if sh == nil {
		overrides.Alone()
		return
	}
	s.records = overrides.Share(admin.Sharing{
		Conn: sh.fleet, Log: s.Log,
		Heard: func(e fleet.Entry) {
			if charges := admin.Touched(s.runtime.activePolicy(), e.Body, s.runtime.expiryNow()); len(charges) > 0 {
				sh.store.Forget(charges...)
			}
		},
		Missed: func() { sh.store.Forget() },
	})
	sh.confirmed = s.records.Synced
}

// node returns this node.
func (s *server) node() fleet.Node {
	if s.store.shared == nil {
		return fleet.Node{Name: hostName()}
	}
	return s.store.shared.fleet.Node()
}
