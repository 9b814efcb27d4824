// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

const box = document.getElementById("chart"), at = document.getElementById("at");
const { seconds, bins } = JSON.parse(document.getElementById("series").textContent);
const lines = [[], [], []];
const put = (from, allowed, denied) => [from, allowed, denied].forEach((n, i) => lines[i].push(n));
bins.forEach((bin, i) => {
  const before = i > 0 ? bins[i - 1].from + seconds : bin.from;
  if (before < bin.from) put(before, 0, 0);
  if (before + seconds < bin.from) put(bin.from - seconds, 0, 0);
  put(bin.from, bin.allowed, bin.denied);
});
const size = () => ({ width: Math.max(box.clientWidth, 200), height: box.clientHeight });
const when = (s) => new Date(s * 1000).toISOString().slice(0, 16).replace("T", " ");
let plot;
function draw() {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: of("--muted"), font: "11px system-ui, sans-serif", grid: { stroke: of("--grid"), width: 1 }, ticks: { stroke: of("--grid"), width: 1, size: 4 } };
  const line = (label, colour, dash) => ({ label, stroke: of(colour), fill: of(colour) + "22", width: 1.5, dash, points: { show: lines[0].length < 3 } });
  const point = (u) => (at.textContent = u.cursor.idx == null ? "" : `${when(lines[0][u.cursor.idx])} UTC: ${lines[1][u.cursor.idx]} allowed, ${lines[2][u.cursor.idx]} denied`);
  plot?.destroy();
  plot = new uPlot({
    ...size(), legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } }, tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"),
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } }, axes: [{ ...axis, size: 26, space: 90, values: (_, ticks) => ticks.map((s) => when(s).slice(5)) }, { ...axis, size: 56 }],
    series: [{}, line("Allowed", "--allowed"), line("Denied", "--denied", [5, 3])], hooks: { setCursor: [point] },
  }, lines, box);
}
draw();
new ResizeObserver(() => plot.setSize(size())).observe(box);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
