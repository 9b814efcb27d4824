// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/server/internal/series"
)

// LogLines are the numbers of lines of a log of requests.
type LogLines struct{ Written, Dropped uint64 }

// WatchLogs exports the lines of the logs of requests. It calls of at every scrape.
//
//	sluice_decision_log_lines_total{result}  written, dropped
//	sluice_access_log_lines_total{result}    written, dropped
func (m *Metrics) WatchLogs(of func() (decisions, access LogLines)) {
	var c series.Collector
	inDecisions := c.Counter("sluice_decision_log_lines_total", "Lines of the decision log, written and dropped.", "result")
	inAccess := c.Counter("sluice_access_log_lines_total", "Lines of the access log, written and dropped.", "result")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		decisions, access := of()
		series.Put(ch, inDecisions, decisions.Written, "written")
		series.Put(ch, inDecisions, decisions.Dropped, "dropped")
		series.Put(ch, inAccess, access.Written, "written")
		series.Put(ch, inAccess, access.Dropped, "dropped")
	})
}
