// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"iter"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/series"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// CountTCP counts the outcome of a connection at a named listener:
//
//	sluice_tcp_connections_total{listener,verdict}  allowed, denied-client, denied-rate, denied-open, undecided
func (m *Metrics) CountTCP(listener string, e tcp.Event) {
	m.connections.WithLabelValues(listener, e.Verdict.String()).Inc()
}

// WatchRequests exports the HTTP requests in progress, by listener name. It calls of at every
// scrape.
//
//	sluice_http_requests_in_flight{listener}
func (m *Metrics) WatchRequests(of func() map[string]int) {
	var c series.Collector
	running := c.Gauge("sluice_http_requests_in_flight", "HTTP requests in progress.", "listener")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for name, n := range of() {
			series.Put(ch, running, n, name)
		}
	})
}

// WatchTCP exports the traffic of TCP listeners by name. It calls stats at every scrape.
//
//	sluice_tcp_open_connections{listener}
//	sluice_tcp_bytes_total{listener,direction}  received from clients, and sent to them
func (m *Metrics) WatchTCP(stats func() map[string]tcp.Stats) {
	var c series.Collector
	open := c.Gauge("sluice_tcp_open_connections", "Open TCP connections.", "listener")
	bytes := c.Counter("sluice_tcp_bytes_total", "Bytes passed on over TCP.", "listener", "direction")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for name, s := range stats() {
			series.Put(ch, open, s.Open, name)
			series.Put(ch, bytes, s.Received, name, "received")
			series.Put(ch, bytes, s.Sent, name, "sent")
		}
	})
}

// WatchAbandoned exports the outcomes of requests whose client left before the response that a
// limit awaits. It calls stats at every scrape.
//
//	sluice_abandoned                exchanges in progress
//	sluice_abandoned_total{end}     seen: settled by the response; lost: without one;
//	                                unsent: cancelled, as not sent whole; full:
//	                                cancelled, as too many were in progress
func (m *Metrics) WatchAbandoned(stats func() gateway.AbandonedStats) {
	var c series.Collector
	waiting := c.Gauge("sluice_abandoned", "Requests whose client has left while a limit awaits their response.")
	ended := c.Counter("sluice_abandoned_total", "Requests whose client left while a limit awaited their response, by their end.", "end")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		series.Put(ch, waiting, s.Waiting)
		series.Put(ch, ended, s.Seen, "seen")
		series.Put(ch, ended, s.Lost, "lost")
		series.Put(ch, ended, s.Unsent, "unsent")
		series.Put(ch, ended, s.Full, "full")
	})
}

// Certificate is the state of a listener's certificate.
type Certificate struct {
	NotAfter time.Time // expiry of the active certificate
	Current  bool      // the active one is the one in the files
}

// WatchCertificates exports the state of listeners' certificates, by listener name. It calls
// of at every scrape.
//
//	sluice_certificate_not_after_seconds{listener}  expiry of the active certificate
//	sluice_certificate_current{listener}            0 while it is not the one in the files
func (m *Metrics) WatchCertificates(of func() map[string]Certificate) {
	var c series.Collector
	notAfter := c.Gauge("sluice_certificate_not_after_seconds", "When the active certificate expires, in seconds since 1970.", "listener")
	current := c.Gauge("sluice_certificate_current", "1 if the last reload of the certificate succeeded, else 0.", "listener")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for name, cert := range of() {
			series.Put(ch, notAfter, cert.NotAfter.Unix(), name)
			series.Put(ch, current, series.Truth(cert.Current), name)
		}
	})
}

// Config is an active configuration.
type Config struct {
	File, Hash string
	Loaded     time.Time
	Current    bool // it is the one in the file
}

// WatchPolicy exports the outcomes of requests under the rules of a policy, and the active
// version of its file. It reads both at every scrape. Only one policy can be watched.
//
//	sluice_rule_requests_total{rule,verdict}      allowed, warned, delayed, denied, refused, failed-open, failed-closed
//	sluice_trial_requests_total{rule,level,candidate,verdict}  what a candidate or shadow rule would have done
//	sluice_unstated_costs_total{rule}             responses without the header field of their cost
//	sluice_config_info{file,hash}                 1, for the active version
//	sluice_config_loaded_seconds                  when it became active
//	sluice_config_current                         0 while the current file is not active
func (m *Metrics) WatchPolicy(t *tally.Tally, config func() Config) {
	var c series.Collector
	requests := c.Counter("sluice_rule_requests_total", "Requests by rule and verdict.", "rule", "verdict")
	trials := c.Counter("sluice_trial_requests_total", "Requests by what a candidate, or a rule in shadow, would have done.", "rule", "level", "candidate", "verdict")
	unstated := c.Counter("sluice_unstated_costs_total", "Responses without a usable header field of their cost, so that the estimate stays.", "rule")
	info := c.Gauge("sluice_config_info", "1, labelled by the active configuration.", "file", "hash")
	loaded := c.Gauge("sluice_config_loaded_seconds", "When the configuration became active, in seconds since 1970.")
	current := c.Gauge("sluice_config_current", "1 if the last reload of the configuration succeeded, else 0.")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for _, r := range t.Reports() {
			series.Put(ch, requests, r.Allowed, r.Rule, "allowed")
			series.Put(ch, requests, r.Warned, r.Rule, "warned")
			series.Put(ch, requests, r.Delayed, r.Rule, "delayed")
			series.Put(ch, requests, r.Denied, r.Rule, "denied")
			series.Put(ch, requests, r.Refused, r.Rule, "refused")
			series.Put(ch, requests, r.Failed, r.Rule, "failed-closed")
			series.Put(ch, requests, r.FailedOpen, r.Rule, "failed-open")
			if r.Priced {
				series.Put(ch, unstated, r.Unstated, r.Rule)
			}
			on := r.Candidates
			if r.Evaluated > 0 { // the rule itself is in shadow
				on = append(on, outcome.CandidateReport{Evaluated: r.Evaluated, WouldDeny: r.WouldDeny})
			}
			for _, trial := range on {
				series.Put(ch, trials, trial.Evaluated-trial.WouldDeny, r.Rule, trial.Level, trial.Name, "allowed")
				series.Put(ch, trials, trial.WouldDeny, r.Rule, trial.Level, trial.Name, "denied")
			}
		}
		v := config()
		series.Put(ch, info, 1, v.File, v.Hash)
		series.Put(ch, loaded, float64(v.Loaded.UnixMilli())/1000)
		series.Put(ch, current, series.Truth(v.Current))
	})
}

// Held are the numbers of delayed requests and their memory.
type Held struct {
	InFlight        int   // requests that hold slots
	Requests        int   // delayed now
	Full, ShareFull int64 // found no place in all, or none for their key
	ReadAhead       int64 // bytes of bodies kept now
	Stopped         int64 // bodies not read further for lack of room
}

// WatchHeld exports the numbers of delayed requests and their memory. It calls of at every
// scrape.
//
//	sluice_slots_held               requests that hold slots of limits of requests in flight
//	sluice_delayed_requests         requests delayed now
//	sluice_delays_refused_total{reason} requests without a place: full, or share (of their key)
//	sluice_read_ahead_bytes         of bodies kept meanwhile
//	sluice_read_ahead_stopped_total bodies without room
func (m *Metrics) WatchHeld(of func() Held) {
	var c series.Collector
	slots := c.Gauge("sluice_slots_held", "Requests that hold slots of limits of requests in flight.")
	held := c.Gauge("sluice_delayed_requests", "Requests in the delay queue.")
	refused := c.Counter("sluice_delays_refused_total", "Requests without a place in the delay queue, because it or the share of their key was full.", "reason")
	ahead := c.Gauge("sluice_read_ahead_bytes", "Bytes of bodies that are kept while their requests are delayed.")
	stopped := c.Counter("sluice_read_ahead_stopped_total", "Bodies that were not read further while their requests were delayed, for lack of room.")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		h := of()
		series.Put(ch, slots, h.InFlight)
		series.Put(ch, held, h.Requests)
		series.Put(ch, refused, h.Full, "full")
		series.Put(ch, refused, h.ShareFull, "share")
		series.Put(ch, ahead, h.ReadAhead)
		series.Put(ch, stopped, h.Stopped)
	})
}

// WatchUpstreams exports the connections to upstreams. It calls stats at every scrape.
//
//	sluice_upstream_connections                 open or being dialled
//	sluice_upstream_connections_refused_total{reason}  full: too many are open;
//	                                            descriptors, ports: there were none left
func (m *Metrics) WatchUpstreams(stats func() gateway.ConnectionStats) {
	var c series.Collector
	open := c.Gauge("sluice_upstream_connections", "Connections to upstreams that are open now, or being dialled.")
	refused := c.Counter("sluice_upstream_connections_refused_total", "Connections to upstreams that could not be opened, by the resource that was missing.", "reason")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		series.Put(ch, open, s.Open)
		series.Put(ch, refused, s.Full, "full")
		series.Put(ch, refused, s.NoDescriptor, "descriptors")
		series.Put(ch, refused, s.NoPort, "ports")
	})
}

// WatchClientMemory exports the memory that clients use, if that is bounded. It calls stats at
// every scrape.
//
//	sluice_client_memory_bytes, sluice_client_memory_limit_bytes
//	sluice_client_memory_refused_total{what}  connection, header, request
func (m *Metrics) WatchClientMemory(stats func() gateway.MemoryStats) {
	var c series.Collector
	taken := c.Gauge("sluice_client_memory_bytes", "Memory counted for connections and requests of clients.")
	limit := c.Gauge("sluice_client_memory_limit_bytes", "Limit of sluice_client_memory_bytes, from GOMEMLIMIT; 0 without one.")
	refused := c.Counter("sluice_client_memory_refused_total", "Connections and headers that were closed, and requests answered with 503, for lack of memory.", "what")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		series.Put(ch, taken, s.Taken)
		series.Put(ch, limit, s.Most)
		series.Put(ch, refused, s.Connections, "connection")
		series.Put(ch, refused, s.Headers, "header")
		series.Put(ch, refused, s.Requests, "request")
	})
}

// CutOff is the number of requests ended by bounds of the gateway.
type CutOff struct {
	SlowBodies   int64 // by the least rate of bodies
	LongRequests int64 // by the longest time that a request may take
}

// WatchCutOff exports the requests ended by bounds of the gateway. It calls of at every
// scrape.
//
//	sluice_cut_off_total{bound}  least_body_rate, longest_request
func (m *Metrics) WatchCutOff(of func() CutOff) {
	var c series.Collector
	ended := c.Counter("sluice_cut_off_total", "Requests that a bound on their time has ended, by the bound.", "bound")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		n := of()
		series.Put(ch, ended, n.SlowBodies, "least_body_rate")
		series.Put(ch, ended, n.LongRequests, "longest_request")
	})
}

// WatchRefused exports the refusals of a front. It calls refused, which yields their numbers
// by reason, at every scrape.
//
//	sluice_api_refused_total{reason}   token, operation, body, faults, limits
//	sluice_check_refused_total{reason} peer, description
//	sluice_resp_refused_total{reason}  address, auth, right, command, protocol, idle, half, unread
func (m *Metrics) WatchRefused(front, help string, refused func() iter.Seq2[string, int64]) {
	var c series.Collector
	counts := c.Counter("sluice_"+front+"_refused_total", help, "reason")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for reason, n := range refused() {
			series.Put(ch, counts, n, reason)
		}
	})
}

// WatchEnvoy exports the statistics of a rate limit service under the names that its operators
// know. It calls each at every scrape; the names passed to put lack the prefix
// ratelimit_service_.
//
//	ratelimit_service_rate_limit_total_hits{domain,key1,key2}, and over_limit, near_limit,
//	    over_limit_with_local_cache, within_limit and shadow_mode
//	ratelimit_service_config_load_success, ratelimit_service_config_load_error
//	ratelimit_service_should_rate_limit_error{err_type}  redis_error, service_error
func (m *Metrics) WatchEnvoy(each func(put func(name string, value int64, labels ...string))) {
	var c series.Collector
	all := make(map[string]series.Series)
	add := func(name, help string, labels ...string) {
		all[name] = c.Counter("ratelimit_service_"+name, help, labels...)
	}
	for name, help := range map[string]string{
		"total_hits": "Hits of a limit.", "over_limit": "Hits above a limit.", "near_limit": "Hits between 80 % of a limit and the limit.",
		"over_limit_with_local_cache": "Always 0: there is no such cache.", "within_limit": "Hits that a limit has allowed.", "shadow_mode": "Hits above a limit in shadow mode.",
	} {
		add("rate_limit_"+name, help, "domain", "key1", "key2")
	}
	add("config_load_success", "Files of limits that became active.")
	add("config_load_error", "Files of limits that were refused.")
	add("should_rate_limit_error", "Requests that could not be decided, as the store failed or they were not valid.", "err_type")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		each(func(name string, value int64, labels ...string) { series.Put(ch, all[name], value, labels...) })
	})
}

// WatchLingering exports the connections that linger after an early answer. It calls stats at
// every scrape.
//
//	sluice_lingering_connections
//	sluice_lingering_total{end}  client, bound, full
func (m *Metrics) WatchLingering(stats func() gateway.LingeringStats) {
	var c series.Collector
	open := c.Gauge("sluice_lingering_connections", "Connections on which the rest of a request is read and dropped, so that the client gets its answer.")
	ended := c.Counter("sluice_lingering_total", "Such connections that have ended, by cause: the client, a bound of time or bytes, or a newer connection when too many were open.", "end")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		series.Put(ch, open, s.Open)
		series.Put(ch, ended, s.Client, "client")
		series.Put(ch, ended, s.Bound, "bound")
		series.Put(ch, ended, s.Full, "full")
	})
}

// WatchLimits exports the limits of the active policy, without those of overrides, whose keys are
// clients'. It calls active at every scrape.
//
//	sluice_limit_info{rule,level,tier,limit,algorithm,quota,window}  1; the window in seconds
func (m *Metrics) WatchLimits(active func() *policy.Policy) {
	var c series.Collector
	info := c.Gauge("sluice_limit_info", "1, labelled by a limit in effect: its quota in units and its window in seconds.",
		"rule", "level", "tier", "limit", "algorithm", "quota", "window")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		p := active()
		for i := range p.Rules() {
			for _, l := range p.Levels(i) {
				put := func(tier string, set *policy.Set) {
					if set == nil {
						return
					}
					for j := range set.All.Len() {
						series.Put(ch, info, 1, labelsOf(&l, tier, set.All.Term(j))...)
					}
				}
				put("", l.Base)
				for tier, set := range l.ByTier {
					put(series.Label(tier), set)
				}
			}
		}
	})
}

// labelsOf returns the labels of a limit in effect.
func labelsOf(l *policy.CompiledLevel, tier string, t *sluice.Term) []string {
	return []string{
		l.Rule.Name, l.Name, tier, t.Name, t.Algorithm.String(),
		strconv.FormatInt(t.Quota, 10), strconv.FormatFloat(t.Window.Seconds(), 'f', -1, 64),
	}
}

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
