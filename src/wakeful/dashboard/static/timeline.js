// Drag over the hours of a week, or shift and the arrow keys: the fires of that span are listed. Without it, each hour is a link.
(() => {
"use strict";

const place = document.getElementById("timeline");
const HOLD = 350; // milliseconds that a finger rests on an hour before it chooses: until then it scrolls
const hours = () => [...place.querySelectorAll("td[data-at]")];
const at = (cell) => Number(cell.dataset.at);
let from = 0, to = 0, isDragging = false, hasDragged = false, resting = 0;

// What is chosen is a time and not a cell: the calendar is drawn anew while it is live.
function chosen() {
  const [first, last] = from <= to ? [from, to] : [to, from];
  return from && to ? hours().filter((one) => at(one) >= first && at(one) <= last) : [];
}
function show() {
  const span = chosen();
  hours().forEach((one) => one.classList.toggle("chosen", span.includes(one)));
  const said = place.querySelector(".span-said");
  if (!said) return;
  said.textContent = span.length ? `${told(span[0], "at")} – ${told(span.at(-1), "end")}: ${span.length} ${span.length === 1 ? "hour" : "hours"}, ${sum(span, "fired")} fired, ${sum(span, "coming")} to come. Enter lists them, escape lets go.` : said.dataset.hint;
}
const sum = (span, name) => span.reduce((total, one) => total + Number(one.dataset[name] || 0), 0);
function told(cell, end) {
  const zone = place.querySelector("table").dataset.zone;
  return new Date(1000 * cell.dataset[end]).toLocaleString("en-GB", { timeZone: zone, weekday: "short", hour: "2-digit", minute: "2-digit" });
}
function clear() { from = to = 0; isDragging = false; clearTimeout(resting); show(); }
function list() {
  const span = chosen();
  if (!span.length) return;
  const stamp = (seconds) => new Date(1000 * seconds).toISOString().replace(".000Z", "Z");
  const asked = new URLSearchParams({ since: stamp(span[0].dataset.at), until: stamp(span.at(-1).dataset.end) });
  location.href = `${document.body.dataset.root}${sum(span, "fired") ? "/fires" : "/timeline/coming"}?${asked}`;
}

// A mouse, a pen, a finger

const cellOf = (node) => node instanceof Element ? node.closest("td[data-at]") : null;
place.addEventListener("pointerdown", (event) => {
  const cell = cellOf(event.target);
  if (!cell || event.button !== 0) return;
  hasDragged = false;
  const begin = () => { from = to = at(cell); isDragging = true; };
  if (event.pointerType === "touch") { clear(); resting = setTimeout(() => { begin(); hasDragged = true; show(); }, HOLD); } else begin();
});
document.addEventListener("pointermove", (event) => {
  if (!isDragging) { if (event.pointerType === "touch") clearTimeout(resting); return; }
  const cell = cellOf(document.elementFromPoint(event.clientX, event.clientY));
  if (!cell || at(cell) === to) return;
  hasDragged = true;
  to = at(cell);
  show();
});
document.addEventListener("pointerup", () => {
  clearTimeout(resting);
  if (!isDragging) return;
  isDragging = false;
  if (hasDragged) list(); else clear();
});
document.addEventListener("pointercancel", clear);
document.addEventListener("touchmove", (event) => { if (isDragging) event.preventDefault(); }, { passive: false });
place.addEventListener("contextmenu", (event) => { if (isDragging) event.preventDefault(); });
place.addEventListener("dragstart", (event) => event.preventDefault()); // of a link: it would end the choosing
place.addEventListener("click", (event) => { if (hasDragged) { event.preventDefault(); hasDragged = false; } }, true);

// Keys

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
function beside(cell, [down, right]) {
  const row = cell.parentElement, table = row.parentElement;
  const next = table.rows[row.sectionRowIndex + down];
  for (let column = cell.cellIndex + right; next && next.cells[column]; column += right) {
    if (next.cells[column].dataset.at) return next.cells[column];
    if (!right) return null;
  }
  return null;
}
place.addEventListener("keydown", (event) => {
  const cell = cellOf(event.target), by = STEPS[event.key];
  if (event.key === "Escape" && from) { clear(); return; }
  if (event.key === "Enter" && from && from !== to) { event.preventDefault(); list(); return; }
  if (!cell || !by || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const next = beside(cell, by);
  if (!next) return;
  if (event.shiftKey) { from ||= at(cell); to = at(next); } else from = to = 0;
  show();
  prepare();
  (next.querySelector("a") || next).focus();
});

function prepare() {
  place.querySelectorAll("table.heat").forEach((one) => one.classList.add("zooms"));
}
document.body.addEventListener("htmx:after:swap", () => { prepare(); show(); });
prepare();
show();
const now = place.querySelector(".heat .at-now"), scroll = now && now.closest(".scroll");
if (scroll) scroll.scrollLeft = now.offsetLeft - scroll.clientWidth / 2;
})();
