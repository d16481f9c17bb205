// The charts of the health page. The same figures stand beside them as a table, for those who cannot see or run this.
(() => {
"use strict";

const place = document.querySelector("[data-figures]");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const drawn = [];

function chart(node, series, data, format) {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const size = () => ({ width: node.clientWidth, height: 220 });
  const plot = new uPlot({
    ...size(),
    cursor: { drag: { x: true, y: false } },
    series: [{ value: "{YYYY}-{MM}-{DD} {HH}:{mm}" }, ...series],
    axes: [{ ...axis, values: (self, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })) }, { ...axis, size: 64, values: (self, splits) => splits.map(format) }],
    // Half an hour on either side: a bar stands in the middle of its place.
    scales: { x: { range: (self, low, high) => [low - 1800, high + 1800] }, y: { range: (self, low, high) => [0, Math.max(high, 0.01) * 1.05] } },
  }, data, node);
  drawn.push([plot, size]);
}

const seconds = (value) => value == null ? "–" : value < 1 ? `${Math.round(value * 1000)} ms` : value < 60 ? `${+value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
const count = (value) => value == null ? "–" : Number.isInteger(value) ? value.toLocaleString("en-GB") : "";
const line = (label, name, more = {}) => ({ label, stroke: colour(name), width: 2, value: (self, value) => seconds(value), ...more });

function draw(found) {
  while (drawn.length) drawn.pop()[0].destroy();
  chart(place.querySelector("[data-chart=lateness]"), [line("median", "--good"), line("95 %", "--warn"), line("longest", "--bad", { dash: [4, 4] })], [found.at, found.median, found.p95, found.longest], seconds);
  chart(place.querySelector("[data-chart=fires]"), [{ label: "fires", stroke: colour("--accent"), fill: colour("--mark"), width: 2, paths: uPlot.paths.bars({ size: [0.8] }), points: { show: false }, value: (self, value) => count(value) }], [found.at, found.fires], count);
}

async function load() {
  const answer = await fetch(place.dataset.figures, { headers: { accept: "application/json" } });
  if (answer.ok && !answer.redirected) draw(await answer.json());
}

addEventListener("resize", () => drawn.forEach(([plot, size]) => plot.setSize(size())));
document.getElementById("theme").addEventListener("click", () => setTimeout(load));
load();
setInterval(load, 60000);
})();
