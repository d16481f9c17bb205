// What makes a page live. Every page works without it: it only keeps times current, asks again for what has changed,
// and lets the keyboard do what the buttons do.
"use strict";

const root = document.body.dataset.root;
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// Times, in the reader's zone

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
function span(seconds) {
  const parts = [];
  for (const [name, size] of units) {
    if (seconds >= size || (name === "s" && !parts.length)) {
      parts.push(`${Math.floor(seconds / size)} ${name}`);
      seconds %= size;
    } else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}
const clock = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });
function tellTime(time) {
  const at = new Date(time.dateTime), seconds = Math.round((at - Date.now()) / 1000);
  const said = time.dataset.form === "clock" ? clock.format(at) : time.dataset.form === "exact" ? exact.format(at) : seconds > 0 ? `in ${span(seconds)}` : seconds > -1 ? "now" : `${span(-seconds)} ago`;
  if (time.textContent !== said) time.textContent = said;
  if (!time.dataset.local) {
    time.dataset.local = "1";
    time.title = `${full.format(at)} · ${time.dateTime}`;
  }
}
const tellTimes = () => $$("time").forEach(tellTime);
setInterval(tellTimes, 1000);
document.body.addEventListener("htmx:after:swap", () => { tellTimes(); place(); count(); showFresh(); showCopied(); });

// A part that is asked for again is changed where it differs: what a reader has opened or marked stays so.

htmx.config.morphIgnore.push("open");
// A part that cannot be had just now stays as it was: the next change asks for it again.
htmx.config.noSwap.push("5xx", "429");
document.body.addEventListener("htmx:response:error", (event) => {
  const answer = event.detail.ctx && event.detail.ctx.response;
  if (answer && answer.raw && answer.raw.status >= 429) tell(`The server could not do that just now (${answer.raw.status}).`);
});
const seen = new Set($$("tr[id]").map((one) => one.id));
function showFresh() {
  for (const one of $$("tr[id]")) {
    if (!seen.has(one.id)) one.classList.add("fresh");
    seen.add(one.id);
  }
}

// Live

const live = $("#live");
let heard = 0, stream = null;
function follow() {
  stream = new EventSource(document.body.dataset.live);
  const here = () => { heard = Date.now(); live.textContent = "● live"; live.className = "live on"; };
  stream.addEventListener("hello", () => { if (heard) changed(); here(); });
  stream.addEventListener("changed", () => { here(); changed(); });
  stream.onopen = here;
  stream.onerror = () => { if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (!document.hidden && stream.readyState === EventSource.CLOSED) follow(); }, 2000); };
}
// A browser has six connections to a server: a tab that nobody sees must not keep one from those that are seen.
document.addEventListener("visibilitychange", () => {
  if (!stream) return;
  stream.close();
  if (!document.hidden) follow();
});
function changed() { document.body.dispatchEvent(new CustomEvent("wakeful:changed")); }
setInterval(() => {
  if (!live || !stream || stream.readyState === EventSource.OPEN) return;
  live.className = "live cut";
  live.textContent = heard ? `updated ${span(Math.round((Date.now() - heard) / 1000))} ago` : "not connected";
}, 1000);
if (live && document.body.dataset.live) follow();
if (document.documentElement.dataset.zone) setTimeout(changed, 100);

// What was done

let hiding = 0;
const said = /(?:^|; )wakeful_said=([0-9a-f]*)/.exec(document.cookie);
if (said) {
  const bytes = Uint8Array.from(said[1].match(/../g) || [], (two) => parseInt(two, 16));
  tell(new TextDecoder().decode(bytes));
  document.cookie = "wakeful_said=; max-age=0; path=/; samesite=strict";
}
function tell(text) {
  $("#said").textContent = text;
  $("#said").hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { $("#said").hidden = true; }, 6000);
}

// Light and dark

$("#theme").addEventListener("click", () => {
  const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("wakeful-theme", document.documentElement.dataset.theme);
});

// Many at once

const bulk = $("#bulk");
function count() {
  if (!bulk) return;
  const marked = $$("input[name=id]:checked").length;
  $("#marked").textContent = marked;
  bulk.hidden = marked === 0;
  $("#typed").hidden = marked <= 10;
}
document.addEventListener("change", (event) => {
  if (event.target.id === "all") $$("input[name=id]").forEach((box) => { box.checked = event.target.checked; });
  if (event.target.matches("#all, input[name=id]")) count();
});

// A new alarm: the reader's own zone, and whether the payload is JSON

const zone = $("#timezone");
if (zone && !zone.value) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone;
document.addEventListener("input", (event) => {
  if (!event.target.matches("textarea.json")) return;
  let wrong = "";
  try { if (event.target.value.trim()) JSON.parse(event.target.value); } catch (error) { wrong = error.message; }
  $(".json-said").textContent = wrong && `This is not JSON yet: ${wrong}`;
  event.target.setAttribute("aria-invalid", wrong ? "true" : "false");
});

let copied = null; // the id of what was copied and what its button says, for 2 s, also where the part is asked for again meanwhile
function showCopied() {
  const button = copied && $(`[data-copy="${copied.id}"]`);
  if (button) button.textContent = copied.said;
}
function copy(id) {
  const from = $(`#${id}`), sayThat = (said) => {
    const now = copied = { id, said };
    showCopied();
    setTimeout(() => {
      if (copied === now) copied = null;
      const button = $(`[data-copy="${id}"]`);
      if (button && !(copied && copied.id === id)) button.textContent = "Copy";
    }, 2000);
  };
  getSelection().selectAllChildren(from);
  // Over plain http from another machine browsers have no clipboard: what is selected can be copied by hand.
  if (!navigator.clipboard) { sayThat("Selected"); return; }
  navigator.clipboard.writeText(from.textContent).then(() => sayThat("Copied"), () => sayThat("Selected"));
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-fill], [data-copy]");
  if (!button) return;
  if (button.dataset.copy) { copy(button.dataset.copy); return; }
  const field = $(`[name="${button.dataset.fill}"]`, button.closest("form"));
  field.value = button.dataset.value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});

// What cannot be taken back is asked about first

const sure = $("#sure");
let agreed = null;
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!button || !button.dataset.confirm || agreed === button) { agreed = null; return; }
  event.preventDefault();
  event.stopImmediatePropagation();
  $("#sure-said").textContent = button.dataset.confirm;
  sure.onclose = () => {
    if (sure.returnValue !== "yes") return;
    agreed = button;
    button.form.requestSubmit(button);
  };
  sure.returnValue = "";
  sure.showModal();
}, true);

// Keyboard

let at = "", going = false;
const rows = () => $$("tr[data-href]");
function place() {
  rows().forEach((one) => one.classList.toggle("at-cursor", one.id !== "" && one.id === at));
}
function step(by) {
  const all = rows(), here = all.findIndex((one) => one.id === at);
  const next = all[Math.max(0, Math.min(here + by, all.length - 1))];
  if (!next) return;
  at = next.id;
  place();
  const link = $("a", next);
  if (link) link.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
function press(button) {
  if (button.matches("input")) button.focus();
  else { button.click(); const first = button.matches("summary") && $("input:not([type=hidden]), button", button.parentElement); if (first) first.focus(); }
}
function actOnRow(key, here) {
  const button = $(`[data-row-key="${CSS.escape(key)}"]`);
  if (!button) return false;
  const box = here && $("input[name=id]", here);
  if (box && !$("input[name=id]:checked")) { box.checked = true; count(); }
  if ($("input[name=id]:checked")) button.click();
  return true;
}
const help = $("#help");
$("#keys").addEventListener("click", () => help.showModal());
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
  if (typing) { if (event.key === "Escape") event.target.blur(); return; }
  if (going) {
    going = false;
    const link = $(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); location.href = link.href; }
    return;
  }
  const here = rows().find((one) => one.id !== "" && one.id === at);
  switch (event.key) {
    case "g": going = true; setTimeout(() => { going = false; }, 1500); break;
    case "j": step(1); break;
    case "k": step(-1); break;
    case "Enter": if (here && !event.target.closest("a, button, summary")) location.href = here.dataset.href; break;
    case "x": { const box = here && $("input[name=id]", here); if (box) { box.checked = !box.checked; count(); } break; }
    case "?": help.showModal(); break;
    case "Escape": $$("details.menu[open]").forEach((one) => { one.open = false; }); break;
    default: {
      const button = $(`[data-key="${CSS.escape(event.key)}"]`);
      if (button) { event.preventDefault(); press(button); } else if (actOnRow(event.key, here)) event.preventDefault();
    }
  }
});
const page = $(".top nav [aria-current]");
if (page) page.parentElement.scrollLeft = page.offsetLeft - page.parentElement.clientWidth / 2;
tellTimes();
