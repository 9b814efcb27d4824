// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"github.com/sluicegate/sluice/server/internal/fleet"
	"github.com/sluicegate/sluice/server/internal/keys"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/sharedstore"
)

// share shares overrides, resets and their audit with the other nodes if the store is shared.
func (s *server) share(list *overrides.List) {
	sh := s.store.shared
	if sh == nil {
		s.audit.Node = fleet.Node{Name: sharedstore.HostName()}
		list.Alone()
		return
	}
	s.audit.Node = sh.Fleet().Node()
	s.audit.Records = list.Share(overrides.Sharing{
		Conn: sh.Fleet(), Log: s.Log,
		Heard: func(e fleet.Entry) {
			if charges := keys.Touched(s.runtime.activePolicy(), e.Body, s.runtime.expiryNow()); len(charges) > 0 {
				sh.Decisions().Forget(charges...)
			}
		},
		Missed: func() { sh.Decisions().Forget() },
	})
	sh.OnConfirm(s.audit.Records.Synced)
}
