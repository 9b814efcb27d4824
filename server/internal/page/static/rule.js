// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { fleetOf, overviewOf } from "./api.js";
import { Chart, figures, numbers } from "./chart.js";
import { byId, el, fill, pairs, say, table } from "./dom.js";
import { byNode } from "./fleet.js";
import { count, date, from } from "./format.js";
import { about, verdict } from "./health.js";
import { keyText, times } from "./rules.js";
import { kinds, Series, titles } from "./series.js";

// Rule is the part of the page that shows one rule in full.
export class Rule {
  constructor(close, lookUp) {
    this.box = byId("rule");
    this.lookUp = lookUp;
    const button = el("button", { type: "button" }, "Close");
    button.addEventListener("click", close);
    this.title = el("h2", { id: "rule-title" });
    this.words = el("p");
    this.findings = el("div");
    this.sums = el("dl", { class: "figures" });
    this.chartBox = el("div", { class: "chart small", role: "img" });
    this.at = el("p", { class: "at muted", "aria-hidden": "true" });
    this.numbers = el("div");
    this.facts = el("div", { class: "inner" });
    this.tops = el("div");
    this.box.append(el("div", { class: "head" }, this.title, button), this.words, this.findings, el("h3", null, "Last 24 hours"), this.sums, this.chartBox, this.at,
      el("details", null, el("summary", null, "As a table"), this.numbers), el("div", { class: "columns" }, this.facts, this.tops));
    this.chart = new Chart(this.chartBox, this.at);
  }

  // show shows a rule, of all nodes or of this one, or nothing if the name is empty.
  async show(name, recent, all) {
    this.name = name;
    this.box.hidden = !name;
    if (!name) return;
    say(this.title, `Rule ${name}`);
    const o = await (all ? fleetOf(name) : overviewOf(name));
    if (this.name !== name) return;
    const r = o.rules[0];
    r.sum = recent ?? r.lately ?? new Series(r.recent, 5, 600, Date.parse(o.time)).sum();
    const day = new Series(r.day, 600, 86400, Date.parse(o.time));
    say(this.words, verdict(r));
    fill(this.findings, (r.findings ?? []).map((f) => el("p", { class: ["too-tight", "unstated-cost"].includes(f.kind) ? "warn-text" : null }, f.text)));
    fill(this.sums, figures(day, []));
    this.chart.draw(day, "day", `under the rule ${name}`);
    numbers(this.numbers, day, "day");
    fill(this.facts, limits(r), keys(r), candidates(r), all ? byNode(o, r) : null);
    this.top(r, o.hidden);
  }

  // top shows the keys that were denied most; one in clear can be looked up.
  top(r, hidden) {
    const parts = (r.top ?? []).map((level) => {
      const rows = level.keys.map((k) => {
        const text = keyText(k, "\n");
        const button = k.parts && el("button", { type: "button", class: "link mono" }, text);
        button?.addEventListener("click", () => this.lookUp(text, r.name));
        return [button || el("span", { class: "mono" }, text), times(k)];
      });
      return [el("h4", { class: level.level ? "muted" : "unseen" }, level.level || "All"), table(`Keys denied most${level.level ? ", level " + level.level : ""}`, ["Key", "Denied"], rows)];
    });
    fill(this.tops, el("h3", null, "Keys denied most, since the start"), parts.length ? parts : el("p", { class: "muted" }, "None."),
      hidden && parts.length ? el("p", { class: "muted" }, "Keys are shown as hashes. Log in to see them.") : null);
  }
}

function limits(r) {
  return el("div", null, el("h3", null, "Limits"), pairs([
    ["Limits", r.elsewhere ? "This node has no such rule." : (r.limits ?? []).join("\n") || "none"],
    ["By", r.by || null], ["Mode", r.mode === "shadow" ? "shadow: nothing is denied" : r.mode], ["Failure policy", r.failure],
    ["Since start", [...kinds].filter((k) => r[k] > 0).map((k) => `${titles[k].toLowerCase()} ${count(r[k])}`).join(", ") || "nothing counted"],
    r.unlimited ? ["Tiers without limits", `${count(r.unlimited)} of those allowed`] : null,
  ].filter((p) => p && p[1])));
}

function keys(r) {
  const rows = [r.keys_hour, r.keys_day].filter(Boolean).map((k) => [
    el("span", { title: date(k.since) }, from(k)), about(k.seen, k), about(k.denied, k), about(k.near, k), `${Math.round(100 * k.peak)} %`,
  ]);
  const of = r.keys_hour ?? r.keys_day;
  return el("div", null, el("h3", null, "Keys"), rows.length
    ? [table("Distinct keys", ["Counted", "Seen", "Denied", "Near limit", "Peak"], rows),
      el("p", { class: "muted" }, `Estimates: 19 of 20 are within ${of.error_percent} %. Near limit: less than a fifth left. Peak: the largest used share of a limit.`)]
    : el("p", { class: "muted" }, r.lately ? "Not all nodes have reported keys." : "No keys counted."));
}

function candidates(r) {
  if (!r.candidates?.length) return null;
  return el("div", null, el("h3", null, "Candidates"), table("Candidates", ["Candidate", "Evaluated", "Would deny"],
    r.candidates.map((c) => [(c.level ? c.level + "+" : "") + c.name, count(c.evaluated), count(c.would_deny)])),
  el("p", { class: "muted" }, "Counts requests without a tier or an override, or of the candidate's tier."));
}
