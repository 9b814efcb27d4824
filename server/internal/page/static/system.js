// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { byId, el, fill, pairs } from "./dom.js";
import { bytes, clock, count, date, millis, percent, span } from "./format.js";

// system shows the state of the program apart from its rules.
export function system(o, live) {
  fill(byId("system"), store(o), configuration(o), work(o, live), connections(o));
}

const part = (title, list, ...more) => el("div", null, el("h3", null, title), pairs(list), more);

function store(o) {
  const s = o.store;
  return part("Store", [
    ["State", s.up ? "up" : "unavailable", s.up ? "good-text" : "bad-text"],
    ["Kind", s.kind === "memory" ? "memory of this process" : s.kind],
    s.target ? ["Address", s.target] : null,
    [`Latency since ${clock(Date.parse(s.latency_since))}`, s.p50_ms ? `p50 ≤ ${millis(s.p50_ms)}, p99 ≤ ${millis(s.p99_ms)}` : "no decisions"],
    ["Calls", count(s.asked)],
    ["Failed calls", s.failed ? `${count(s.failed)} (${percent(s.failed, s.asked)})` : "0", s.failed ? "warn-text" : null],
    ...(s.kind === "memory"
      ? [["Keys", `${count(s.keys ?? 0)} in ${bytes(s.bytes ?? 0)}`], ["Evicted", count(s.evicted ?? 0), s.evicted ? "warn-text" : null]]
      : [["Nodes", count(s.nodes ?? 0)], ["Outages", count(s.outages ?? 0)], ["Requests without store", count(s.degraded ?? 0)], ["Calls in flight", count(s.calls_in_flight ?? 0)]]),
  ]);
}

function configuration(o) {
  const c = o.config;
  return part("Configuration", [
    ["File", c.file], ["Version", el("code", null, c.version)],
    ["Active since", date(c.loaded)],
    ["Last reload", c.failure ? "failed, see the top" : "active", c.failure ? "bad-text" : "good-text"],
    ["Rules", count(c.rules)], ["Overrides", count(o.overrides)],
    c.trusted_proxies?.length ? ["Trusted proxies", c.trusted_proxies.join(", ")] : null,
    c.tokens ? ["Tokens", "verified"] : null,
  ]);
}

function work(o, live) {
  const q = o.queue, m = o.memory;
  return part("Work", [
    ["Running for", span(Date.parse(o.time) - Date.parse(o.started))],
    ["In flight", count(live.in_flight)], ["Waiting", count(live.delayed)],
    ["Queue full", `${count(q.full)} (${count(q.share_full)} by the per-key limit)`],
    q.read_ahead ? ["Bodies read ahead", bytes(q.read_ahead)] : null,
    ["Memory", bytes(m.total)],
    m.limit ? ["Memory of clients", `${bytes(m.clients ?? 0)} of ${bytes(m.limit)}`] : null,
    m.history ? ["Memory of this page", bytes(m.history)] : null,
  ]);
}

function connections(o) {
  const certificates = (o.certificates ?? []).map((c) => [
    "Certificate", `${(c.names ?? []).join(", ")} at ${c.listener}\nuntil ${date(c.not_after)}${c.failure ? "\n" + c.failure : ""}`,
    c.failure || Date.parse(c.not_after) < Date.parse(o.time) ? "bad-text" : null,
  ]);
  return part("Connections", [
    ["Listeners", (o.config.listeners ?? []).join("\n")],
    o.config.admin ? ["Admin", o.config.admin] : null,
    ["Upstreams", o.upstreams.urls.join("\n") || "the built-in sample app"],
    ["Upstream connections", count(o.upstreams.open)],
    o.upstreams.refused ? ["Not opened (no resources)", count(o.upstreams.refused), "warn-text"] : null,
    ...certificates,
  ]);
}
