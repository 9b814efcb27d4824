// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { ask } from "./api.js";
import { byId, el, field, fill, say, table } from "./dom.js";
import { count, date, inFlight, moment, nanos } from "./format.js";

const mostOverrides = 100;

// Key is the part of the page where keys are looked up, and changed.
export class Key {
  constructor(changed) {
    this.changed = changed;
    this.rule = el("select", null, el("option", { value: "" }, "any"));
    this.parts = el("textarea", { rows: "1", spellcheck: "false", autocapitalize: "off", autocomplete: "off", required: true });
    this.hint = el("p", { class: "muted", id: "key-hint" });
    this.parts.setAttribute("aria-describedby", this.hint.id);
    this.fault = el("p", { class: "fault", role: "alert" });
    this.said = el("p", { role: "status", tabindex: "-1" });
    this.result = el("div");
    this.overrides = el("div");
    this.author = "";
    this.form = el("form", { class: "row" }, field("Rule", this.rule, "short"), field("Key: PART=VALUE, one per line", this.parts), el("button", { type: "submit", class: "main" }, "Look up"));
    this.form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.find();
    });
    this.parts.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && !e.shiftKey) {
        e.preventDefault();
        this.form.requestSubmit();
      }
    });
    this.body = el("div", null, this.hint, this.form, this.fault, this.said, this.result, this.overrides);
    this.closed = el("p", { class: "muted" }, "Log in to see a key's remaining units, reset it, or override its limits.");
  }

  // allow shows the form to callers with the right to see keys.
  allow(may, rules) {
    const shown = may ? this.body : this.closed;
    if (byId("key-body").firstChild !== shown) {
      byId("key-body").replaceChildren(shown);
      if (!may) this.result.replaceChildren();
    }
    const names = ["any", ...rules.map((r) => r.name)];
    if (names.join("\n") !== [...this.rule.options].map((o) => o.textContent).join("\n")) {
      const was = this.rule.value;
      this.rule.replaceChildren(...names.map((n, i) => el("option", { value: i ? n : "" }, n)));
      this.rule.value = rules.some((r) => r.name === was) ? was : "";
    }
    const by = [...new Set(rules.map((r) => r.by).filter(Boolean))].slice(0, 6);
    say(this.hint, by.length ? `Parts of keys: ${by.join("; ")}. Shift+Enter for a new line.` : "For example ip=192.0.2.1. Shift+Enter for a new line.");
  }

  // list shows the overrides beside those of the file.
  async list(may, n) {
    const all = may && n > 0 ? (await ask("GET", "v1/policy")).overrides : [];
    const text = JSON.stringify(all);
    if (text === this.listed) return; // or what is typed would be lost
    this.listed = text;
    const author = el("input", { autocomplete: "off", required: true });
    author.value = this.author;
    const form = el("form", { class: "row" }, field("Your name (to end one)", author, "short"));
    form.addEventListener("submit", (e) => e.preventDefault());
    fill(this.overrides, all.length === 0 ? null : [
      el("h3", null, `Overrides (${count(all.length)})`), form,
      table("Overrides", ["Rule", "Key", "Limits", "Until", "Reason", "By", "End"], all.slice(0, mostOverrides).map((o) => [
        o.rule + (o.level ? "/" + o.level : ""), el("span", { class: "mono" }, keyOf(o)), o.limits.join("; "),
        whole(o.expires ? date(o.expires) : "no end"), o.reason ?? "", o.author ?? "", this.ending(o, author, form),
      ])),
      all.length > mostOverrides ? el("p", { class: "muted" }, `${count(all.length - mostOverrides)} more: see sluice status.`) : null,
    ]);
  }

  // ending is the button that ends an override.
  ending(o, author, form) {
    const button = el("button", { type: "button", "aria-label": `End the override of ${o.rule} for ${keyOf(o)}` }, "End");
    button.addEventListener("click", () => {
      this.author = author.value;
      if (!form.reportValidity()) return;
      const parts = o.parts ?? Object.fromEntries((o.key ?? []).map((value, i) => [`value ${i + 1}`, value])); // the rule has no such key
      this.try(async () => {
        const done = await ask("DELETE", "v1/override", { rule: o.rule, level: o.level, parts, author: author.value, reason: "", version: o.version });
        say(this.said, `Override removed: ${done.this_node_only ? "on this node only." : "in the store, for all nodes that share it."}`);
        this.said.focus();
        this.changed();
      });
    });
    return button;
  }

  // lookUp shows a key that was chosen elsewhere.
  lookUp(text, rule) {
    this.parts.value = text;
    this.parts.rows = text.split("\n").length;
    this.rule.value = rule;
    byId("key").scrollIntoView({ block: "start" });
    this.parts.focus();
    this.find();
  }

  async find() {
    say(this.said, "");
    const query = new URLSearchParams();
    for (const line of this.parts.value.split("\n").filter((l) => l.trim())) {
      const at = line.indexOf("=");
      if (at < 1) {
        say(this.fault, `"${line.trim()}" is not PART=VALUE; use for example ip=192.0.2.1`);
        return;
      }
      query.append(line.slice(0, at).trim(), line.slice(at + 1).trim());
    }
    if (this.rule.value) query.set("rule", this.rule.value);
    await this.try(async () => {
      const states = await ask("GET", "v1/key?" + query);
      this.result.replaceChildren(...states.keys.map((s) => this.state(s)), states.omitted ? el("p", { class: "muted" }, "More keys match; choose a rule.") : "", states.last ? last(states.last) : "");
    });
  }

  async try(what) {
    say(this.fault, "");
    try {
      await what();
    } catch (e) {
      say(this.fault, e.message);
    }
  }

  state(s) {
    const words = [
      s.exempt && "Exempt: its requests are not charged.",
      s.override && `Override: ${s.override}.`,
      s.shadow && "In shadow: nothing is denied.",
      s.unknown_tier && `The rule has no tier ${s.unknown_tier}.`,
      s.in_flight && inFlight(s.in_flight),
    ].filter(Boolean);
    const tiers = s.tier_by ? [{ tier: s.tier ? `tier ${s.tier}` : "no tier", limits: s.limits, unlimited: s.unlimited }, ...(s.tiers ?? []).map((p) => ({ ...p, tier: `tier ${p.tier}` }))] : [{ tier: "", limits: s.limits, unlimited: s.unlimited }];
    return el("div", { class: "state-of-key" },
      el("h3", null, `${s.rule}${s.level ? "/" + s.level : ""}: `, el("span", { class: "mono" }, Object.entries(s.parts).map(([p, v]) => `${p}=${v}`).join(" "))),
      words.map((w) => el("p", null, w)),
      tiers.map((p) => [
        p.tier ? el("h4", { class: "muted" }, p.tier) : null,
        p.unlimited ? el("p", null, "No limit: requests are counted, never denied.") : null,
        p.limits?.length ? limits(p.limits) : null,
      ]),
      s.more_tiers ? el("p", { class: "muted" }, `${count(s.more_tiers)} more tiers; add ${s.tier_by}=NAME to see one.`) : null,
      this.changes(s));
  }

  // changes returns the forms that change a key, as sluice key does.
  changes(s) {
    const of = { rule: s.rule, level: s.level || undefined, parts: s.parts };
    const author = el("input", { autocomplete: "off", required: true });
    author.value = this.author;
    const reason = el("input", { autocomplete: "off" });
    const limit = el("input", { autocomplete: "off", placeholder: "1000/min" });
    const until = el("select", null, [["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"], ["", "no end"]].map(([value, text]) => el("option", { value }, text)));
    // Each button is pressed on purpose: Enter in a field does nothing.
    const form = el("form", { class: "row" });
    const button = (what, text) => {
      const e = el("button", { type: "button", value: what }, text);
      e.addEventListener("click", () => {
        this.author = author.value;
        if (form.reportValidity()) this.change(what, { ...of, reason: reason.value, author: author.value }, limit.value, until.value);
      });
      return e;
    };
    form.addEventListener("submit", (e) => e.preventDefault());
    form.append(field("Your name", author, "short"), field("Reason", reason), button("reset", "Reset"), field("Other limit", limit, "short"), field("For", until, "short"), button("override", "Override"));
    if (s.override) form.append(button("remove", "Remove override"));
    return el("details", null, el("summary", null, "Change"), form);
  }

  async change(what, doc, limit, seconds) {
    await this.try(async () => {
      let done;
      if (what === "reset") done = await ask("POST", "v1/key/reset", doc);
      if (what === "override") {
        const expires = seconds ? new Date(Date.now() + 1000 * Number(seconds)).toISOString() : undefined;
        done = await ask("PUT", "v1/override", { ...doc, limits: limit ? limit.split(";").map((l) => l.trim()) : [], expires });
      }
      if (what === "remove") done = await ask("DELETE", "v1/override", doc);
      await this.find();
      say(this.said, `${{ reset: "Reset", override: "Overridden", remove: "Override removed" }[what]}: ${done.this_node_only ? "on this node only." : "in the store, for all nodes that share it."}`);
      this.said.focus(); // the form is another one now
      this.changed();
    });
  }
}

// keyOf writes the key of an override.
const keyOf = (o) => (o.parts ? Object.entries(o.parts).map(([p, v]) => `${p}=${v}`) : o.key ?? []).join(" ");

const whole = (...texts) => el("span", { class: "whole" }, ...texts);

function limits(list) {
  return table("Limits of the key", ["Limit", "Left", "1 more", "Full in", "Details"], list.map((l) => {
    const left = el("meter", { min: "0", max: String(Math.max(1, l.full)), value: String(Math.max(0, l.remaining)), "aria-hidden": "true" });
    const units = l.full ? [left, ` ${count(l.remaining)} of ${count(l.full)}`] : []; // a block has no units
    return [
      l.limit, el("span", { class: l.allowed ? "whole" : "whole bad-text" }, ...units),
      whole(l.allowed ? "fits now" : l.too_large ? "never" : nanos(l.retry_after_ns)), whole(nanos(l.reset_after_ns)), l.words,
    ];
  }));
}

// last shows the last decisions.
function last(l) {
  const list = l.decisions ?? [];
  return el("div", null,
    el("h3", null, "Last decisions"),
    list.length ? table("Last decisions", ["Time", "Decision", "Request", "Limit", "Left"], list.map((d) => [
      whole(moment(d.time)), el("span", { class: d.verdict === "denied" ? "whole bad-text" : "whole" }, `${d.verdict} ${d.status}`), el("span", { class: "mono" }, `${d.method} ${d.path}`),
      [`${d.rule}${d.level ? "/" + d.level : ""}: ${d.limit ?? ""}`, d.mode === "enforced" ? null : ` (${[d.mode, d.candidate].filter(Boolean).join(" ")})`, d.limit_verdict === d.verdict ? null : `; this limit: ${d.limit_verdict}`].filter(Boolean).join(""),
      d.remaining === undefined ? "" : count(d.remaining),
    ])) : null,
    l.note || !list.length ? el("p", { class: "muted" }, l.note ? `${l.note[0].toUpperCase()}${l.note.slice(1)}.` : "None.") : null,
    l.unreadable ? el("p", { class: "muted" }, `Unreadable lines of the log: ${count(l.unreadable)}.`) : null);
}
