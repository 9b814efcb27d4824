// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// verdicts are the verdicts, of which each request has one, those that pass first.
const passing = ["allowed", "warned", "delayed", "failed_open"];
const verdicts = [...passing, "denied", "refused", "failed", "abandoned"];
export const kinds = [...verdicts, "would_deny", "degraded", "upstream_errors"];
export const titles = {
  allowed: "Allowed", warned: "Warned", delayed: "Delayed", failed_open: "No limit", denied: "Denied", refused: "Refused", failed: "Failed",
  abandoned: "Left", would_deny: "Would deny", degraded: "Without store", upstream_errors: "Upstream errors",
};

const sumOf = (list) => (n) => list.reduce((sum, k) => sum + (n[k] ?? 0), 0);
export const passed = sumOf(passing); // requests that were passed on
export const requests = sumOf(verdicts); // all

export const noCounts = () => Object.fromEntries(kinds.map((k) => [k, 0]));

// Series holds the counts in the steps of a span, the newest last.
export class Series {
  // doc is as in the overview, or missing where nothing was counted; now is in ms.
  constructor(doc, step, seconds, now) {
    this.step = step;
    this.size = seconds / step;
    this.last = Math.floor(now / 1000 / step); // number of the newest step
    this.lists = Object.fromEntries(kinds.map((k) => [k, new Float64Array(this.size)]));
    this.first = this.last; // number of the first step that is known
    if (!doc) return;
    const first = Math.round(Date.parse(doc.from) / 1000 / step);
    this.first = first;
    this.last = Math.max(this.last, first + doc.steps - 1);
    for (const k of kinds) {
      (doc[k] ?? []).forEach((n, i) => {
        const at = this.size - 1 - (this.last - first - i);
        if (at >= 0) this.lists[k][at] = n;
      });
    }
  }

  // move makes the step of now the newest.
  move(now) {
    const to = Math.floor(now / 1000 / this.step);
    const by = to - this.last;
    if (by <= 0) return;
    this.last = to;
    for (const list of Object.values(this.lists)) {
      list.copyWithin(0, Math.min(by, this.size));
      list.fill(0, Math.max(0, this.size - by));
    }
  }

  // add spreads counts evenly over the steps between two moments.
  add(from, to, counts) {
    this.move(to);
    const first = Math.max(Math.floor(from / 1000 / this.step) + (this.step === 1 ? 1 : 0), this.last - this.size + 1);
    const steps = Math.max(1, this.last - first + 1);
    for (const k of kinds) {
      const n = counts[k] ?? 0;
      for (let i = 0; n > 0 && i < steps; i++) {
        // Whole numbers, so that sums stay whole.
        this.lists[k][this.size - 1 - i] += Math.floor(((i + 1) * n) / steps) - Math.floor((i * n) / steps);
      }
    }
  }

  sum() {
    return Object.fromEntries(kinds.map((k) => [k, this.lists[k].reduce((a, b) => a + b, 0)]));
  }

  // bins returns averages a second over bins of so many seconds, with the ends of the
  // bins in seconds since 1970. A bin before the start is null. The last bin, which is
  // not over, is included if open is set.
  bins(seconds, open) {
    const per = seconds / this.step;
    const next = Math.floor((this.last + 1) / per) * per; // number of the first step of the last bin
    const end = open && next <= this.last ? next + per : next;
    const of = { x: [], ...Object.fromEntries(kinds.map((k) => [k, []])) };
    for (let from = end - Math.floor(this.size / per) * per; from < end; from += per) {
      const first = Math.max(from, this.first, this.last - this.size + 1), to = Math.min(from + per, this.last + 1);
      of.x.push((from + per) * this.step);
      for (const k of kinds) {
        let sum = 0;
        for (let i = first; i < to; i++) sum += this.lists[k][i - this.last + this.size - 1];
        of[k].push(first < to ? sum / (to - first) / this.step : null);
      }
    }
    return of;
  }
}
