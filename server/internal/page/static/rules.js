// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { spark } from "./chart.js";
import { byId, el, fill, say, table } from "./dom.js";
import { count, from, percent } from "./format.js";
import { kinds, passed, requests, Series, titles } from "./series.js";

const mostRows = 200;
const rare = ["warned", "delayed", "refused", "failed", "failed_open", "would_deny"]; // shown where a rule has any
const columns = [
  ["Rule"], ["10 minutes", "wide"], ["Allowed", "n"], ["Denied", "n"], ["Share denied", "n"], ...rare.map((k) => [titles[k], "n middle"]),
  ["Keys", "n wide"], ["Keys denied", "n wide"], ["Near limit", "n wide"],
];

// Rules is the table of rules.
export class Rules {
  constructor(open) {
    this.open = open;
    this.rows = new Map();
    this.series = new Map();
    this.body = el("tbody");
    this.heads = columns.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
    byId("rules").append(el("table", null, el("caption", { class: "unseen" }, "Requests by rule"),
      el("thead", null, el("tr", null, this.heads)),
      this.body));
  }

  // set shows the rules of an overview, busiest deniers first.
  set(o) {
    const now = Date.parse(o.as_of ?? o.time);
    this.series = new Map(o.rules.map((r) => [r.name, new Series(r.recent, 5, 600, now)]));
    this.all = o.rules;
    this.sort();
    this.show(now);
    this.tops();
  }

  // tops shows which keys are denied most under all rules.
  tops() {
    const all = this.all.flatMap((r) => (r.top ?? []).flatMap((l) => l.keys.map((k) => ({ ...k, rule: r.name + (l.level ? "/" + l.level : "") }))));
    const first = all.sort((a, b) => b.least - a.least).slice(0, 5);
    fill(byId("tops"), first.length === 0 ? null : [el("h3", null, "Keys denied most, since the start"),
      table("Keys denied most under all rules", ["Key", "Rule", "Denied"], first.map((k) => [el("span", { class: "mono" }, keyText(k)), k.rule, times(k)]))]);
  }

  sort() {
    this.sum();
    const shown = this.all.map((r, i) => ({ r, i }));
    if (this.all.length > 12) shown.sort((a, b) => b.r.sum.denied - a.r.sum.denied || passed(b.r.sum) - passed(a.r.sum) || a.i - b.i);
    const names = shown.slice(0, mostRows).map((s) => s.r.name);
    const left = this.all.length - names.length;
    const keys = this.all.find((r) => r.keys_hour)?.keys_hour;
    say(byId("rules-note"), "Counts of the last 10 minutes." + (keys ? ` Keys ${from(keys)}.` : "") + (left > 0 ? ` ${count(left)} more rules: sluice status.` : ""));
    if (names.join("\n") === [...this.rows.keys()].join("\n")) return;
    this.rows = new Map(names.map((name) => [name, this.rows.get(name) ?? this.row(name)]));
    this.body.replaceChildren(...[...this.rows.values()].map((row) => row.tr));
  }

  // sum takes the sums of nodes where there are, or those of the series.
  sum() {
    for (const r of this.all) r.sum = r.lately ?? this.series.get(r.name).sum();
  }

  row(name) {
    const button = el("button", { type: "button", class: "link", "aria-expanded": "false", "aria-controls": "rule" }, name);
    button.addEventListener("click", () => this.open(name));
    const mode = el("span", { class: "tag", hidden: true });
    const away = el("span", { class: "tag denied", hidden: true });
    const limits = el("div", { class: "limits" });
    const cells = columns.slice(1).map(([, kind]) => el("td", { class: kind }));
    return { button, mode, away, limits, cells, tr: el("tr", null, el("th", { scope: "row" }, button, mode, away, limits), cells) };
  }

  // add counts what an event reports, and shows it.
  add(from, to, counts) {
    for (const [name, n] of counts) this.series.get(name)?.add(from, to, n);
    for (const s of this.series.values()) s.move(to);
    this.show(to);
  }

  show() {
    this.sum();
    for (const r of this.all) {
      const row = this.rows.get(r.name);
      if (row) this.write(row, r);
    }
    rare.forEach((k, i) => {
      this.heads[5 + i].hidden = !this.all.some((r) => r.sum[k] > 0);
    });
    for (const row of this.rows.values()) rare.forEach((_, i) => (row.cells[4 + i].hidden = this.heads[5 + i].hidden));
  }

  write(row, r) {
    const n = r.sum, keys = r.keys_hour;
    row.mode.hidden = r.mode !== "shadow" && !r.findings?.length && !r.elsewhere;
    say(row.mode, r.elsewhere ? "only on other nodes" : r.mode === "shadow" ? "shadow" : findingWords[r.findings?.[0]?.kind] ?? "look");
    row.mode.setAttribute("class", r.mode === "shadow" ? "tag" : "tag would_deny");
    row.away.hidden = !this.away || r.elsewhere;
    say(row.away, "without the store: " + (r.mode === "shadow" ? "not evaluated" : meanwhile[r.failure] ?? r.failure));
    say(row.limits, (r.limits ?? []).join("; ") + (r.by ? ` by ${r.by}` : ""));
    fill(row.cells[0], r.lately && !r.recent ? null : spark(this.series.get(r.name)));
    const number = (i, text, kind, zero) => {
      say(row.cells[i], text);
      row.cells[i].setAttribute("class", `${columns[i + 1][1]} ${kind}${zero ? " zero" : ""}`);
    };
    const of = (i, k) => number(i, count(n[k]), k, !n[k]);
    of(1, "allowed");
    of(2, "denied");
    number(3, percent(n.denied, requests(n)), "share", !n.denied);
    rare.forEach((k, i) => of(4 + i, k));
    const at = 4 + rare.length;
    number(at, keys ? count(keys.seen) : "–", "", !keys?.seen);
    number(at + 1, keys ? count(keys.denied) : "–", "", !keys?.denied);
    number(at + 2, keys ? percent(keys.near, keys.seen) : "–", "", !keys?.near);
  }

  // mark says which rule is shown in full, and whether the store is away.
  mark(name, away = this.away) {
    if (away !== this.away) {
      this.away = away;
      this.show();
    }
    for (const [of, row] of this.rows) {
      row.tr.classList.toggle("open", of === name);
      row.button.setAttribute("aria-expanded", String(of === name));
    }
  }
}

// keyText writes a key that was denied, in clear or as its hash, and times how often.
export const keyText = (k, between = " ") => (k.parts ? Object.entries(k.parts).map(([part, value]) => `${part}=${value}`).join(between) : k.hash);
export const times = (k) => (k.least === k.most ? count(k.most) : `${count(k.least)}–${count(k.most)}`);

const meanwhile = { open: "no limit", local: "this node's share", closed: "answers 503" };
const findingWords = { "too-tight": "too tight?", "one-client": "one client", "never-reached": "never reached", "unstated-cost": "cost not known" };

// since returns what was counted since before.
export const since = (now, before) => Object.fromEntries(kinds.map((k) => [k, Math.max(0, (now?.[k] ?? 0) - (before?.[k] ?? 0))]));
