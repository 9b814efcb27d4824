// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/server/reload"
	"github.com/sluicegate/sluice/server/tally"
)

// WatchPolicy exports what became of requests under the rules of a policy and
// which version of its file is in force. Both are asked at every scrape. Only
// one policy can be watched.
//
//	sluice_rule_requests_total{rule,verdict}      allowed, warned, denied, refused, failed
//	sluice_trial_requests_total{rule,level,candidate,verdict}  what is on trial would do
//	sluice_config_info{file,hash}                 1, for the version in force
//	sluice_config_loaded_seconds                  when that was
//	sluice_config_current                         0 while the file as it is now is not in force
func (m *Metrics) WatchPolicy(t *tally.Tally, version func() (reload.Version, *reload.Failure)) {
	m.registry.MustRegister(rules{t, version})
}

type rules struct {
	tally   *tally.Tally
	version func() (reload.Version, *reload.Failure)
}

var (
	ruleDesc    = prometheus.NewDesc("sluice_rule_requests_total", "Requests by rule; warned ones are allowed, too.", []string{"rule", "verdict"}, nil)
	trialDesc   = prometheus.NewDesc("sluice_trial_requests_total", "Requests by what a candidate, or a rule in shadow, would have done.", []string{"rule", "level", "candidate", "verdict"}, nil)
	configDesc  = prometheus.NewDesc("sluice_config_info", "1, labelled by the configuration in force.", []string{"file", "hash"}, nil)
	loadedDesc  = prometheus.NewDesc("sluice_config_loaded_seconds", "When the configuration was put in force, in seconds since 1970.", nil, nil)
	currentDesc = prometheus.NewDesc("sluice_config_current", "0 while the file as it is now could not be put in force.", nil, nil)
)

// Describe is of [prometheus.Collector].
func (r rules) Describe(ch chan<- *prometheus.Desc) {
	ch <- ruleDesc
	ch <- trialDesc
	ch <- configDesc
	ch <- loadedDesc
	ch <- currentDesc
}

// Collect is of [prometheus.Collector].
func (r rules) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, report := range r.tally.Reports() {
		count(ruleDesc, report.Allowed, report.Rule, "allowed")
		count(ruleDesc, report.Warned, report.Rule, "warned")
		count(ruleDesc, report.Denied, report.Rule, "denied")
		count(ruleDesc, report.Refused, report.Rule, "refused")
		count(ruleDesc, report.Failed, report.Rule, "failed")
		if report.Judged > 0 {
			count(trialDesc, report.Judged-report.WouldDeny, report.Rule, "", "", "allowed")
			count(trialDesc, report.WouldDeny, report.Rule, "", "", "denied")
		}
		for _, c := range report.Candidates {
			count(trialDesc, c.Judged-c.WouldDeny, report.Rule, c.Level, c.Name, "allowed")
			count(trialDesc, c.WouldDeny, report.Rule, c.Level, c.Name, "denied")
		}
	}
	v, failure := r.version()
	gauge(configDesc, 1, v.File, v.Hash)
	gauge(loadedDesc, float64(v.Loaded.UnixMilli())/1000)
	if failure != nil {
		gauge(currentDesc, 0)
		return
	}
	gauge(currentDesc, 1)
}
