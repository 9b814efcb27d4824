// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package serve runs the program: a configuration in; listeners, stores, reload and drain out. It
// composes the fronts, the store and the operators' pages, and decides nothing.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - announce.go: what a start prints
//   - reload.go: a changed file, applied as a whole
//   - files.go: the files that a configuration names, checked
//   - explain.go: a request explained without a running program
//   - admin.go: the operators' API and its parts
//   - fleet.go: records that nodes share
//   - peers.go: reports among the nodes of a store
//   - overview.go: the state that pages show
//   - latency.go: latencies of the store for it
//   - decided.go: the last decisions about a key
//   - descriptors.go: connections divided among file descriptors
//   - proxies.go: a sink that notices proxies which are not trusted
//   - sinks.go: the sinks of records
//   - counts.go: counts for the metrics
//   - lost.go: overrides that have no rule
//   - serve.go: Run: all parts wired, started and ended
//   - listenerchange.go: a change of the listeners
//   - listeners.go: all listeners, served and drained
//   - listener.go: one listener: socket, wrappers, front
//   - kinds.go: the table of fronts
//   - certificates.go: certificates as pages and metrics show them
//   - store.go: the store, in this process or shared
//   - state.go: a state kept over a restart
//   - fulllog.go: the log of a full store
//   - notify.go: systemd
//   - background_linux.go: work with less priority
//   - background_other.go: the same elsewhere
//   - descriptors_unix.go: the limit of file descriptors
//   - descriptors_other.go: the same elsewhere
//   - runtime.go: what all fronts share, and the snapshot of a configuration
//   - logs.go: the logs of requests
//   - intervals.go: intervals of background work
package serve
