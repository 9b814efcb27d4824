// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import * as api from "./api.js";
import { figures, main, numbers } from "./chart.js";
import { byId, el, fill, say } from "./dom.js";
import { Explain } from "./explain.js";
import { nodes } from "./fleet.js";
import { count, rate, zone } from "./format.js";
import { assess } from "./health.js";
import { Key } from "./key.js";
import { Rule } from "./rule.js";
import { Rules, since } from "./rules.js";
import { kinds, requests, Series } from "./series.js";
import { Session } from "./session.js";
import { system } from "./system.js";

const whole = 30e3; // ms between two overviews
const silence = 9e3; // ms without an event after which the program is asked whether it is there
const again = 5e3; // ms until the next attempt
const together = 5e3; // ms between two sums of all nodes

const view = { span: "recent", whose: "sum", f: null, summed: 0, rule: "", lost: null, o: null, live: null, last: null, heard: 0, loaded: 0, busy: false, again: false };
let stream = null;

const session = new Session(() => load());
const key = new Key(() => load());
const explain = new Explain();
const rules = new Rules((name) => open(view.rule === name ? "" : name));
const rule = new Rule(() => open(""), (text, of) => key.lookUp(text, of));
const chart = main();

// load reads everything again. After a call in between it reads once more, as its data may be
// older than a log-in.
async function load() {
  if (document.hidden) return;
  view.again = view.busy;
  if (view.busy) return;
  view.busy = true;
  try {
    session.set(await api.session());
    const o = await api.overview();
    const f = o.store.kind === "redis" && view.whose === "sum" ? await api.fleet() : null;
    view.summed = Date.now();
    view.loaded = view.heard = Date.now();
    view.lost = null;
    view.skew = Date.parse(o.time) - Date.now();
    view.o = o;
    view.f = f;
    view.all = f ? sums(f) : { recent: new Series(o.requests.recent, 1, 600, Date.parse(o.time)), day: new Series(o.requests.day, 60, 86400, Date.parse(o.time)) };
    view.last = { at: Date.parse(o.time), total: o.requests.total, rules: new Map(o.rules.map((r) => [r.name, r])) };
    view.live = { in_flight: o.in_flight, delayed: o.queue.delayed };
    rules.set(f ?? o);
    byId("whose").hidden = o.store.kind !== "redis";
    byId("content").hidden = false;
    show();
    if (!stream && !document.hidden) listen();
    if (view.rule) await showRule();
    explain.allow(!o.hidden);
    await key.list(!o.hidden, o.overrides);
  } catch (e) {
    fault(e);
  } finally {
    view.busy = false;
    if (view.again) load();
  }
}

// sums returns the series of all nodes.
function sums(f) {
  const at = Date.parse(f.as_of);
  return { recent: new Series(f.requests.recent, 1, 600, at), day: new Series(f.requests.day, 60, 86400, at) };
}

// sum reads the counts of all nodes.
async function sum() {
  try {
    const f = await api.fleet();
    if (!view.f || view.busy || !view.o) return; // it has changed meanwhile
    view.f = f;
    view.all = sums(f);
    rules.set(f);
    show();
  } catch (e) {
    fault(e);
  }
}

// fault shows why there is no data, or that the data is old.
function fault(e) {
  if (e instanceof api.Refused) {
    hush();
    byId("content").hidden = true;
    document.body.classList.remove("lost");
    view.o = view.lost = null;
    view.loaded = Date.now();
    state("", "");
    headline({ kind: "", text: e.status === 401 ? "Log in to see the state of sluice" : "Not available at this address", notes: e.status === 401 ? [] : [{ kind: "warn", text: e.message }] });
    if (e.status === 401) session.open();
    return;
  }
  if (!(e instanceof api.Unanswered)) throw e;
  lost();
}

function lost() {
  if (view.lost) return;
  hush();
  view.lost = new Date(view.heard || Date.now());
  if (view.o) return show();
  state("lost", "Not connected");
  headline({ kind: "bad", text: "sluice does not answer", notes: [{ kind: "bad", text: "This page keeps trying." }] });
}

// listen opens the stream of events.
function listen() {
  hush();
  const own = (stream = new EventSource("v1/live"));
  own.addEventListener("open", () => (view.heard = Date.now()));
  const broken = () => {
    if (own !== stream) return;
    hush(); // load opens another
    view.loaded = Date.now() - whole + 1500;
  };
  own.addEventListener("counts", (e) => {
    if (own !== stream) return;
    const news = event(e.data);
    if (news) take(news);
    else broken();
  });
  own.addEventListener("error", broken);
}

function hush() {
  stream?.close();
  stream = null;
}

// event returns the document of an event, null if it is none.
function event(text) {
  try {
    const e = JSON.parse(text);
    return Date.parse(e.time) > 0 && e.total && typeof (e.rules ?? {}) === "object" ? e : null;
  } catch {
    return null;
  }
}

// take counts what an event reports.
function take(e) {
  view.heard = Date.now();
  if (!view.o) return;
  const at = Date.parse(e.time), from = view.last.at;
  if (at <= from) return;
  if (!view.f) add(e, from, at); // otherwise sum polls the counts
  view.last.at = at;
  view.live = { in_flight: e.in_flight, delayed: e.delayed };
  const more = since(e.total, view.last.total);
  const bad = more.refused + more.failed + more.failed_open + more.upstream_errors;
  if (bad > 0 && Date.now() - view.loaded > together) view.loaded = 0; // the headline may have to say why
  view.last.total = e.total;
  if (e.store_up !== view.o.store.up || e.version !== view.o.config.version || e.current === !!view.o.config.failure) view.loaded = 0;
  view.o.time = e.time;
  show();
}

// add counts what this node reports.
function add(e, from, at) {
  const more = since(e.total, view.last.total);
  view.all.recent.add(from, at, more);
  view.all.day.add(at, at, more);
  const changes = new Map();
  for (const [name, n] of Object.entries(e.rules ?? {})) {
    changes.set(name, since(n, view.last.rules.get(name)));
    view.last.rules.set(name, n);
  }
  rules.add(from, at, changes);
}

function state(kind, text) {
  byId("link").className = "state " + kind;
  say(byId("link"), text);
}

function headline(j) {
  byId("headline").className = j.kind;
  say(byId("headline"), j.text);
  fill(byId("notes"), j.notes.map((n) => el("li", { class: n.kind }, n.text)));
  document.title = j.kind === "good" || !j.kind ? "sluice" : `(!) ${j.text.split(".")[0]} · sluice`;
}

function show() {
  const o = view.o, f = view.f, all = view.all[view.span];
  const now = f ? 0 : Date.now() + view.skew; // a sum ends when all have reported
  view.all.recent.move(view.lost ? 0 : now);
  view.all.day.move(view.lost ? 0 : now);
  document.body.classList.toggle("lost", !!view.lost);
  headline(assess(f ? { ...o, rules: f.rules, requests: f.requests } : o, view.all.recent.sum(), view.lost, f));
  const bins = view.all.recent.bins(5);
  const lately = view.lost ? "–" : rate(requests(Object.fromEntries(kinds.map((k) => [k, bins[k].at(-1)]))));
  const here = [["In flight", count(view.live.in_flight)], ["Waiting", count(view.live.delayed)]];
  fill(byId("figures"), figures(all, [["Now", lately, view.lost ? "" : "/s"], ...(f ? [["Nodes", `${f.summed} of ${f.nodes.length + f.unreported}`]] : here)]));
  chart.draw(all, view.span, "in all");
  if (byId("numbers").open) numbers(byId("numbers").querySelector("div"), all, view.span);
  rules.mark(view.rule, !o.store.up);
  nodes(f);
  say(byId("system-title"), f ? "System of this node" : "System");
  system(o, view.live);
  key.allow(!o.hidden, o.rules);
  say(byId("where"), `${(o.config.listeners ?? []).slice(0, 2).join(", ")} · ${o.config.file} · ${o.config.version}`);
  say(byId("build"), `sluice ${o.build.version} ${o.build.revision ? o.build.revision.slice(0, 12) : ""} ${o.build.go}`.replace(/ +/g, " "));
  if (view.lost) state("lost", "Not connected");
  else state("live", "Live");
}

async function showRule() {
  try {
    await rule.show(view.rule, (view.f ?? view.o)?.rules.find((r) => r.name === view.rule)?.sum, !!view.f);
  } catch (e) {
    if (!(e instanceof api.Refused)) throw e;
    open(""); // a change of the configuration has removed it
  }
}

// open shows a rule in full, or none. The address says which, so that it can be
// sent to a colleague; it never holds a key.
function open(name) {
  const before = view.rule;
  view.rule = name;
  history.replaceState(null, "", name ? "#rule=" + encodeURIComponent(name) : location.pathname);
  rules.mark(name);
  rule.show("");
  if (name) showRule().then(() => byId("rule").focus(), fault);
  else if (before) rules.rows.get(before)?.button.focus();
}

// tick is called each second while the page is seen.
function tick() {
  if (document.hidden) return;
  const now = Date.now();
  if (view.lost || now - view.loaded > whole) {
    if (now - (view.tried ?? 0) > (view.lost ? again : 2000)) {
      view.tried = now;
      load();
    }
    return;
  }
  if (!view.o) return;
  if (view.f && !view.busy && now - view.summed > together) {
    view.summed = now;
    sum();
  }
  if (now - view.heard > silence && !view.asking) {
    view.asking = true;
    api.alive().then((there) => {
      view.asking = false;
      if (there) view.heard = Date.now();
      else lost();
    });
  }
  if (now - (view.last?.at ?? 0) - view.skew > 5000) show(); // charts move without events, too
}

byId("span").addEventListener("change", (e) => {
  view.span = e.target.value;
  if (view.o) show();
});
byId("whose").addEventListener("change", (e) => {
  view.whose = e.target.value;
  load();
});
byId("numbers").addEventListener("toggle", () => view.o && show());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) hush();
  else load();
});
const named = /^#rule=(.+)$/.exec(location.hash);
if (named) {
  try {
    view.rule = decodeURIComponent(named[1]);
  } catch {
    view.rule = ""; // as the address may be written by hand
  }
}
say(byId("zone"), `Times are those of ${zone()}.`);
setInterval(tick, 1000);
load();
