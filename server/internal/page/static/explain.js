// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { ask } from "./api.js";
import { byId, el, field, say } from "./dom.js";
import { count, inFlight, nanos } from "./format.js";

// Explain is the part of the page that explains the decision of a request, without
// charging it.
export class Explain {
  constructor() {
    this.box = byId("explain");
    this.method = el("input", { autocomplete: "off", value: "GET", required: true });
    this.url = el("input", { autocomplete: "off", placeholder: "/orders?q=1", required: true });
    this.client = el("input", { autocomplete: "off", placeholder: "192.0.2.7" });
    this.fields = el("textarea", { rows: "1", spellcheck: "false", autocapitalize: "off", placeholder: "X-User: ada" });
    this.fault = el("p", { class: "fault", role: "alert" });
    this.result = el("div", { role: "status" });
    const form = el("form", { class: "row" }, field("Method", this.method, "short"), field("Path or URL", this.url), field("Client's address", this.client, "short"),
      field("Header fields, one per line", this.fields), el("button", { type: "submit", class: "main" }, "Explain"));
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.ask();
    });
    byId("explain-body").append(el("p", { class: "muted" }, "What would happen to a request now, and why. Nothing is charged."), form, this.fault, this.result);
  }

  // allow shows the form to callers with the right to ask.
  allow(may) {
    this.box.hidden = !may;
    if (!may) this.result.replaceChildren();
  }

  async ask() {
    say(this.fault, "");
    const headers = Object.create(null); // without names of its own
    for (const line of this.fields.value.split("\n").filter((l) => l.trim())) {
      const at = line.indexOf(":");
      if (at < 1) {
        say(this.fault, `"${line.trim()}" is not a header field; use for example X-User: ada`);
        return;
      }
      (headers[line.slice(0, at).trim()] ??= []).push(line.slice(at + 1).trim());
    }
    try {
      const e = await ask("POST", "v1/explain", { method: this.method.value.trim(), url: this.url.value.trim(), client: this.client.value.trim() || undefined, headers });
      this.result.replaceChildren(...answer(e));
    } catch (e) {
      say(this.fault, e.message);
    }
  }
}

function answer(e) {
  const d = e.decision;
  const words = [
    e.verdict + (e.rule ? ` by ${e.rule}` : "") + (e.violated?.length && e.verdict === "denied" ? `: ${e.violated.join(", ")}` : ""),
    e.violated?.length && e.verdict !== "denied" && `in shadow mode it would be denied by ${e.violated.join(", ")}`,
    e.why, d.degraded && "decided without the store",
    d.delay_ns && `delayed by ${nanos(d.delay_ns)}`,
    d.too_large ? "it would never pass" : d.retry_after_ns && `it would pass in ${nanos(d.retry_after_ns)}`,
  ].filter(Boolean);
  const not = e.rules.filter((r) => !r.matches);
  return [
    el("p", { class: ["allowed", "warned", "delayed"].includes(e.verdict) ? "verdict good-text" : "verdict warn-text" }, words.join("; ")),
    ...e.rules.filter((r) => r.matches).map(rule),
    not.length + (e.more_unmatched ?? 0) === 0 ? "" : el("details", null, el("summary", null, `${count(not.length + (e.more_unmatched ?? 0))} rules do not match`),
      el("ul", null, not.map((r) => el("li", null, `${r.name}: ${(r.differences ?? []).join("; ")}`)))),
  ];
}

function rule(r) {
  return el("div", { class: "state-of-key" }, el("h3", null, r.name, r.mode === "enforce" ? null : el("span", { class: "tag" }, r.mode)),
    r.exempt ? el("p", null, "The client's network is exempt.") : null, (r.notes ?? []).map((n) => el("p", { class: "muted" }, n)),
    (r.levels ?? []).map((l) => [
      el("p", { class: "mono" }, `${l.name ? l.name + ": " : ""}${Object.entries(l.parts).map(([p, v]) => `${p}=${v}`).join(" ")}${l.tier ? `, tier ${l.tier}` : ""}`),
      l.override ? el("p", null, `Override: ${l.override}.`) : null, l.note ? el("p", null, l.note) : null,
      (l.limits ?? []).map(limit),
      l.in_flight ? el("p", null, inFlight(l.in_flight)) : null,
      (l.candidates ?? []).map((c) => [el("p", { class: "muted" }, `Candidate ${c.name}: ${c.skipped ? `not evaluated: ${c.skipped}` : c.allowed ? "would allow" : "would deny"}`), (c.limits ?? []).map(limit)]),
    ]));
}

const limit = (l) => el("ul", { class: "lines" }, el("li", { class: l.allowed ? null : "bad-text" }, l.limit + (l.grace ? " (grace)" : l.soft ? " (soft)" : "")), [...l.lines, ...(l.changes ?? []).map((t) => `would pass with ${t}`)].map((t) => el("li", { class: "muted" }, t)));
