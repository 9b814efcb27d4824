// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { bytes, clock, count, date, from, percent, plural, span } from "./format.js";
import { requests as all } from "./series.js";

const mostFindings = 20;
const soon = 14 * 86400e3; // before a certificate ends

// assess returns the problems of the program, gravest first, and a headline.
// The kind is bad if requests are not treated as the configuration says, and warn if
// that may happen. Notes about other nodes come after the problems of this node.
export function assess(o, sums, lost, fleet) {
  const notes = [];
  const say = (kind, text) => notes.push({ kind, text });
  const now = Date.parse(o.time);
  if (lost) say("bad", `No answer from sluice since ${clock(lost)}. The page shows the state of that time, and keeps trying.`);
  const s = o.store;
  if (!s.up) say("bad", `The store is unavailable: ${s.text.replace(/^store: /, "")}`);
  if (o.config.failure) say("bad", `${o.config.file || "The configuration's file"} has errors and was not loaded. The previous version (${o.config.version}) stays active.\n${o.config.failure}`);
  for (const c of o.certificates ?? []) {
    const left = Date.parse(c.not_after) - now;
    if (left <= 0) say("bad", `The certificate of ${c.listener} expired on ${date(c.not_after)}.`);
    else if (left < soon) say("warn", `The certificate of ${c.listener} expires in ${span(left)}.`);
    if (c.failure) say("bad", `The new certificate of ${c.listener} was not loaded. The previous one stays active. ${c.failure}`);
  }
  const problems = o.requests.problems ?? [];
  for (const p of problems) say(p.share >= 0.5 ? "bad" : "warn", p.text[0].toUpperCase() + p.text.slice(1) + (p.kind === "log" ? "." : ", in the last 10 minutes."));
  for (const n of fleet?.notes ?? []) say(n.kind, n.text[0].toUpperCase() + n.text.slice(1) + ".");
  if (sums.degraded > 0) say("warn", `${plural(sums.degraded, "request was", "requests were")} decided without the store in the last 10 minutes.`);
  const m = o.memory;
  if (m.limit && m.clients > 0.9 * m.limit) say("warn", `Memory for clients is almost full: ${bytes(m.clients)} of ${bytes(m.limit)}. Requests beyond get 503.`);
  if (s.evicted) say("warn", `The store is full: ${plural(s.evicted, "key was", "keys were")} evicted since the start. An evicted key has its whole quota again.`);
  if (o.queue.full) say("note", `${plural(o.queue.full, "request was", "requests were")} refused since the start: the queue was full.`);
  if (o.upstreams.refused) say("note", `${plural(o.upstreams.refused, "connection", "connections")} to upstreams could not be opened since the start: no descriptors, ports or places were left.`);
  const found = o.rules.flatMap((r) => (r.findings ?? []).map((f) => [["too-tight", "unstated-cost"].includes(f.kind) ? "warn" : "note", `${r.name}: ${f.text}`]));
  for (const [kind, text] of found.slice(0, mostFindings)) say(kind, text);
  if (found.length > mostFindings) say("note", `${plural(found.length - mostFindings, "more finding")}: see sluice status.`);
  return { ...headline(o, sums, lost, notes, problems[0]), notes };
}

function headline(o, sums, lost, notes, problem) {
  if (lost) return { kind: "bad", text: "Connection to sluice lost" };
  const bad = notes.some((n) => n.kind === "bad");
  let requests = "No requests in the last 10 minutes";
  if (all(sums) > 0 && sums.denied === 0) requests = "Nothing denied in the last 10 minutes";
  if (sums.denied > 0) {
    const rules = o.rules.filter((r) => r.sum?.denied > 0).sort((a, b) => b.sum.denied - a.sum.denied);
    requests = `${percent(sums.denied, all(sums))} of requests denied in the last 10 minutes`;
    if (rules.length > 0) requests += o.rules.length === 1 ? "" : `, most by ${rules[0].name}`;
  }
  const s = o.store;
  if (s.not_applied) {
    const at = Date.parse(s.not_applied_since);
    const since = Date.parse(o.time) - at < 12 * 3600e3 ? clock(at) : date(at);
    return { kind: "bad", text: `${s.not_applied[0].toUpperCase()}${s.not_applied.slice(1)} not applied since ${since}. ${requests}` };
  }
  if (!s.up) return { kind: "bad", text: `Store unavailable. ${requests}` };
  if (problem) return { kind: problem.share >= 0.5 ? "bad" : "warn", text: problem.text[0].toUpperCase() + problem.text.slice(1) };
  if (bad) return { kind: "bad", text: `Needs attention. ${requests}` };
  if (notes.some((n) => n.kind === "warn")) return { kind: "warn", text: `Serving. ${requests}` };
  return { kind: "good", text: `Healthy. ${requests}` };
}

// verdict describes the state of a rule in a few sentences.
export function verdict(r) {
  const n = r.sum, sum = all(n), keys = r.keys_hour;
  const parts = [];
  if (sum + n.would_deny === 0) parts.push("No requests in the last 10 minutes.");
  else if (n.denied === 0) parts.push(`Denied none of ${plural(sum, "request")} in the last 10 minutes.`);
  else parts.push(`Denied ${count(n.denied)} of ${plural(sum, "request")} (${percent(n.denied, sum)}) in the last 10 minutes.`);
  if (n.would_deny > 0) parts.push(`${r.mode === "shadow" ? "In shadow, it" : "It or a candidate"} would have denied ${count(n.would_deny)}.`);
  if (keys && keys.seen > 0) {
    parts.push(`${from(keys).replace("s", "S")}, ${about(keys.denied, keys)} of ${about(keys.seen, keys)} keys were denied, and ${about(keys.near, keys)} (${percent(keys.near, keys.seen)}) had less than a fifth of a limit left.`);
  }
  return parts.join(" ");
}

// about returns an estimate with its error.
export const about = (n, keys) => (n > 0 && keys.error_percent > 0 && n * keys.error_percent >= 50 ? `${count(n)} ± ${count(Math.ceil((n * keys.error_percent) / 100))}` : count(n));
