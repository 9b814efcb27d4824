// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"
)

// needsTrouble are expressions that have no values while all is well, as is tested here.
var needsTrouble = map[string]bool{
	"annotation configuration changed": true,
	"panel Errors and failed calls":    true,
}

// TestBoard: every query of the board has values over three nodes under load, the same
// as were sent; and so have native histograms, where Prometheus takes these.
func TestBoard(t *testing.T) {
	nodes := startNodes(t)
	var targets []string
	for _, n := range nodes {
		targets = append(targets, n.admin)
	}
	classic := startPrometheus(t, targets, "")
	native := startPrometheus(t, targets, "native-histograms,exemplar-storage")
	requests := startLoad(t, nodes)
	until(t, "all nodes to be scraped", func() string {
		if n := classic.one(t, `sum(up{job="sluice"})`); n != 3 {
			return fmt.Sprint(n, " are up")
		}
		return ""
	})
	for _, e := range board(t) {
		until(t, e.from+": "+e.text, func() string {
			got := classic.query(t, fill(e.text))
			if len(got) == 0 && !needsTrouble[e.from] {
				return "no values"
			}
			for _, s := range got {
				if v := s.value(t); v < 0 || v != v {
					return fmt.Sprint(s.Metric, " is ", v)
				}
			}
			return ""
		})
	}
	until(t, "native histograms", func() string {
		for _, of := range []string{"sluice_http_request_duration_seconds", "sluice_upstream_duration_seconds", "sluice_operation_duration_seconds", "sluice_delay_seconds"} {
			v := native.one(t, fmt.Sprintf("histogram_quantile(0.99, sum(rate(%s[5m])))", of))
			if !(v > 0 && v < 60) {
				return fmt.Sprint(of, ": p99 is ", v)
			}
		}
		return ""
	})
	now := time.Now()
	until(t, "traces", func() string {
		var answer struct {
			Data []struct {
				Exemplars []struct{ Labels map[string]string }
			}
		}
		native.ask(t, fmt.Sprintf("/api/v1/query_exemplars?query=%s&start=%d&end=%d", url.QueryEscape("sluice_http_request_duration_seconds"), now.Add(-time.Hour).Unix(), now.Add(time.Hour).Unix()), &answer)
		for _, d := range answer.Data {
			for _, e := range d.Exemplars {
				if len(e.Labels["trace_id"]) == 32 {
					return ""
				}
			}
		}
		return fmt.Sprint("no exemplar has one: ", answer)
	})
	requests.stop()
	sent := float64(requests.sent.Load())
	for _, c := range []struct{ what, expr string }{
		{"by verdict", "sum(sluice_requests_total)"},
		{"by class", "sum(sluice_http_responses_total)"},
		{"timed", "sum(sluice_http_request_duration_seconds_count)"},
	} {
		until(t, "all requests "+c.what, func() string {
			if got := classic.one(t, c.expr); got != sent {
				return fmt.Sprintf("%v of %v", got, sent)
			}
			return ""
		})
	}
	until(t, "the native count to agree", func() string {
		if got := native.one(t, "histogram_count(sum(sluice_http_request_duration_seconds))"); got != sent {
			return fmt.Sprintf("%v of %v", got, sent)
		}
		return ""
	})
	for alert, want := range map[string]bool{"SluiceErrors": true, "SluiceUpstreamDown": true, "SluiceCertificateExpires": true, "SluiceDown": false, "SluiceStoreDown": false, "SluiceConfigDiffers": false} {
		until(t, alert, func() string {
			if got := len(classic.query(t, alerts(t)[alert].text)) > 0; got != want {
				return fmt.Sprintf("%v, want %v", got, want)
			}
			return ""
		})
	}
}
