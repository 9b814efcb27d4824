// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { byId, el, fill, say, table } from "./dom.js";
import { clock, count, span } from "./format.js";
import { passed } from "./series.js";

// label is what people call a node.
export const label = (n) => (n.listen ? `${n.name} (${n.listen})` : n.name);

// nodes shows the nodes of a fleet, or nothing if there is none.
export function nodes(f) {
  byId("fleet").hidden = !f;
  if (!f) return;
  const differ = new Set(f.nodes.filter((n) => !n.silent && !n.apart).map((n) => n.rules)).size > 1;
  say(byId("fleet-note"), `Sum of ${f.summed === 1 ? "1 node" : `${count(f.summed)} nodes`}, as of ${clock(Date.parse(f.as_of))}. Requests since each node's start.`);
  const rows = f.nodes.map((n) => {
    const [kind, text] = state(n);
    return [el("span", null, label(n), n.this ? el("span", { class: "tag" }, "this node") : null), el("span", { class: kind }, text), n.version,
      el("span", { class: differ ? "warn-text mono whole" : "mono whole" }, n.config || "–"), span(Math.max(n.clock - n.started, 0)), count(passed(n.total)), count(n.total.denied)];
  });
  fill(byId("nodes"), table("Nodes that share the store", ["Node", "State", "Version", "Configuration", "Running for", "Passed", "Denied"], rows));
}

// state says in words the state of a node.
function state(n) {
  if (n.silent) return ["bad-text", `silent for ${span(n.seen_seconds_ago * 1000)}`];
  if (!n.store_up) return ["bad-text", "without the store"];
  if (n.failed) return ["warn-text", "file not active"];
  if (!n.summed) return ["warn-text", "not in the sum"];
  return ["good-text", "reports"];
}

// byNode returns what each node has counted under a rule.
export function byNode(f, r) {
  if (!r.nodes?.length) return null;
  const names = new Map(f.nodes.map((n) => [n.id, label(n)]));
  return el("div", null, el("h3", null, "By node, in 10 minutes"), table("Outcomes by node", ["Node", "Passed", "Denied"],
    r.nodes.map((n) => [names.get(n.id) ?? n.id, count(passed(n.lately)), count(n.lately.denied)])));
}
