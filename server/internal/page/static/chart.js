// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { kinds, requests, titles } from "./series.js";
import { clock, count, minute, rate } from "./format.js";
import { byId, el, fill, say, table } from "./dom.js";

const colours = {
  allowed: "--allowed", denied: "--denied", would_deny: "--would", warned: "--warned", delayed: "--delayed", degraded: "--degraded",
  failed_open: "--degraded", refused: "--denied", failed: "--denied", abandoned: "--muted", upstream_errors: "--denied",
};
const dashes = {
  would_deny: [5, 3], warned: [2, 3], delayed: [8, 3], degraded: [1, 3], failed_open: [6, 2], refused: [4, 2], failed: [2, 2], abandoned: [1, 4],
  upstream_errors: [8, 2, 2, 2],
};
const spans = { recent: { bin: 5, row: 60, words: "10 minutes" }, day: { bin: 600, row: 3600, words: "24 hours" } };

// Chart draws a series as requests a second.
export class Chart {
  constructor(box, at) {
    this.box = box;
    this.at = at;
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.again());
  }

  size() {
    return { width: Math.max(this.box.clientWidth, 200), height: this.box.clientHeight };
  }

  again() {
    this.plot?.destroy();
    this.plot = null;
    if (this.data) this.draw(...this.data);
  }

  // draw shows a series, of a span that is "recent" or "day".
  draw(series, span, of) {
    this.data = [series, span, of];
    const { bin, words } = spans[span];
    const bins = series.bins(bin, span === "day");
    const sums = series.sum();
    const shown = kinds.filter((k) => k === "allowed" || sums[k] > 0);
    const lines = [bins.x, ...shown.map((k) => bins[k])];
    const drawn = span + shown.join();
    if (!this.plot || this.drawn !== drawn) {
      this.plot?.destroy();
      this.drawn = drawn;
      this.plot = new uPlot(this.options(shown, span), lines, this.box);
    } else {
      this.plot.setData(lines);
    }
    const most = Math.max(...bins.denied);
    const peak = most > 0 ? ` Most were denied at ${minute(bins.x[bins.denied.indexOf(most)] * 1000)}: ${rate(most)} a second.` : "";
    const label = `Requests ${of} in the last ${words}: ${shown.map((k) => `${count(sums[k])} ${titles[k].toLowerCase()}`).join(", ")}.${peak} The numbers are in the table below.`;
    if (this.box.getAttribute("aria-label") !== label) this.box.setAttribute("aria-label", label);
    if (!this.pointed) say(this.at, `Requests a second, on average over ${span === "recent" ? "5 seconds" : "10 minutes"}.`);
  }

  options(shown, span) {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    const faint = (colour) => colour + Math.round(255 * Number(of("--area"))).toString(16).padStart(2, "0");
    const font = "11px system-ui, sans-serif";
    const axis = { stroke: of("--muted"), font, grid: { stroke: of("--grid"), width: 1 }, ticks: { stroke: of("--grid"), width: 1, size: 4 } };
    return {
      ...this.size(), legend: { show: false }, padding: [8, 8, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
      axes: [
        { ...axis, size: 26, space: 64, values: (_, at) => at.map((s) => minute(s * 1000)), incrs: span === "recent" ? [60, 120, 300] : [3600, 7200, 10800, 14400, 21600, 43200] },
        { ...axis, size: 48, space: 32, values: (_, at) => at.map((n) => count(n)) },
      ],
      series: [{}, ...shown.map((k) => ({
        label: titles[k], stroke: of(colours[k]), width: 1.5, dash: dashes[k], points: { show: (plot, i) => plot.data[i].filter((n) => n !== null).length < 2 },
        fill: k === "allowed" || k === "denied" ? faint(of(colours[k])) : undefined,
      }))],
      hooks: { setCursor: [(plot) => this.point(plot, shown, span)] },
    };
  }

  // point describes the data under the pointer.
  point(plot, shown, span) {
    const i = plot.cursor.idx;
    this.pointed = i !== null && i !== undefined;
    if (!this.pointed) return;
    const end = plot.data[0][i] * 1000;
    const when = span === "recent" ? clock(end) : `${minute(end - 600e3)} to ${minute(end)}`;
    say(this.at, `${when}: ${shown.map((k, at) => `${titles[k].toLowerCase()} ${rate(plot.data[at + 1][i] ?? 0)}/s`).join(", ")}`);
  }
}

// numbers writes the same as a table, the newest first.
export function numbers(box, series, span) {
  const { row, words } = spans[span];
  const bins = series.bins(row, true);
  const sums = series.sum();
  const shown = kinds.filter((k) => k === "allowed" || k === "denied" || sums[k] > 0);
  const rows = bins.x.map((end, i) => [`${minute((end - row) * 1000)} to ${minute(end * 1000)}`, ...shown.map((k) => (bins[k][i] === null ? "–" : rate(bins[k][i])))]).reverse();
  fill(box, table(`Requests a second in the last ${words}`, ["Time", ...shown.map((k) => titles[k])], rows));
}

// figures writes the sums of a series as a list.
export function figures(series, more) {
  const sums = series.sum();
  const all = requests(sums);
  const shown = kinds.filter((k) => k === "allowed" || k === "denied" || sums[k] > 0);
  const part = (k) => (all && sums[k] ? ` ${Math.round((1000 * sums[k]) / all) / 10} %` : "");
  return [
    el("div", null, el("dt", null, "Requests"), el("dd", null, count(all))),
    ...shown.map((k) => el("div", null, el("dt", { class: k }, titles[k]), el("dd", null, count(sums[k]), k !== "allowed" && part(k) ? el("small", null, part(k)) : null))),
    ...more.map(([name, value, unit]) => el("div", null, el("dt", null, name), el("dd", null, value, unit ? el("small", null, " " + unit) : null))),
  ];
}

const svg = (tag, attributes) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
};

// spark draws the last 10 minutes of a rule, small.
export function spark(series) {
  const bins = series.bins(20);
  const all = bins.allowed.map((n, i) => (n === null ? null : requests(Object.fromEntries(kinds.map((k) => [k, bins[k][i]])))));
  const top = Math.max(...all, 0.01);
  const points = (list) => list.map((n, i) => (n === null ? "" : `${((i * 118) / (list.length - 1) + 1).toFixed(1)},${(20.5 - (19 * n) / top).toFixed(1)}`)).join(" ").trim();
  const e = svg("svg", { class: "spark", viewBox: "0 0 120 22", "aria-hidden": "true" });
  e.append(svg("polyline", { class: "a", points: points(all) }));
  if (bins.denied.some((n) => n > 0)) e.append(svg("polygon", { class: "d", points: `${points(bins.denied)} 119,20.5 ${points(bins.denied).split(",")[0]},20.5` }));
  return e;
}

// main is the chart of all requests.
export const main = () => new Chart(byId("chart"), byId("at"));
