// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"strings"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/decided"
	"github.com/sluicegate/sluice/server/internal/logfile"
)

// lastDecisions returns the last decisions about any of the keys from the decision log, if
// that is a file.
func (s *runtime) lastDecisions(keys []decided.Key) decided.List {
	g, file := s.current.Load(), s.logs.decisions.file.Load()
	switch {
	case file == nil || g.decisions == nil:
		return decided.List{Note: "decisions are not kept: there is no decision_log"}
	case regular.Given(logfile.Stream(file.Path())):
		return decided.List{Note: "decisions are not kept: the decision log goes to " + file.Path() + "; name a file"}
	}
	l, err := decided.Find(file.Path(), keys, g.decisions.Fields)
	if l.Note = kept(&g.config.DecisionLog); err != nil {
		l.Note = err.Error()
	}
	return l
}

// kept returns which decisions the log lacks.
func kept(d *config.DecisionLog) string {
	var notes []string
	switch d.Requests {
	case "denied":
		notes = append(notes, "only requests that were denied, or would have been, are kept")
	case "sample":
		notes = append(notes, "only the requests of a sample are kept: by "+cmp.Or(d.By, "client"))
	}
	if !d.Plain && d.SecretFile == "" {
		notes = append(notes, "those before the last start are not found, as keys had other hashes; name a secret_file")
	}
	return strings.Join(notes, "; ")
}
