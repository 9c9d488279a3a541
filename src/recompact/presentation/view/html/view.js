// Keys, and the page again when its run file has changed. Without this script everything can still be read.
"use strict";

const rows = () => [...document.querySelectorAll("table.rows tbody tr, ol.turns > li")];
const target = (row) => row.querySelector("a") || row;

function move(by) {
  const all = rows();
  const now = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? 0 : now + by))];
  if (next) { target(next).focus(); next.scrollIntoView({ block: "nearest" }); }
}

function flip(by) {
  const pairs = [...document.querySelectorAll(".case .sides")].filter((side) => side.querySelector(".steps"));
  if (!pairs.length) return;
  const middle = window.innerHeight / 3;
  const now = pairs.findIndex((side) => side.getBoundingClientRect().bottom > middle);
  const next = pairs[Math.min(pairs.length - 1, Math.max(0, (now < 0 ? pairs.length : now) + by))];
  next.scrollIntoView({ block: "start" });
  (next.querySelector("[tabindex]") || next).focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const dialog = document.getElementById("keys");
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") { dialog.open ? dialog.close() : dialog.showModal(); return; }
  if (dialog.open) return;
  const moves = { j: () => move(1), k: () => move(-1), "]": () => flip(1), "[": () => flip(-1) };
  if (moves[event.key]) { moves[event.key](); event.preventDefault(); return; }
  const named = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
  if (!named) return;
  event.preventDefault();
  if (named.matches("input")) named.focus(); else named.click();
});

// A button beside each command; without it a click selects the whole of it.
function offerCopies() {
  if (!navigator.clipboard) return;
  for (const command of document.querySelectorAll("code.command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(command.textContent); button.textContent = "copied"; }
      catch { button.textContent = "not copied"; }
    });
    command.after(button);
  }
}
// Figures are drawn when the rest is there. Without this a link leads to them.
async function fetchFigures() {
  const place = document.querySelector("[data-figures]");
  if (!place) return;
  place.setAttribute("aria-busy", "true");
  const answer = await fetch(place.dataset.figures);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const figures = page.getElementById("figures");
  if (answer.ok && figures && place.isConnected) place.replaceChildren(...figures.childNodes);
  place.removeAttribute("aria-busy");
}
fetchFigures();

let shown = document.querySelector("main").innerHTML;
offerCopies();

async function refresh() {
  const answer = await fetch(location.href, { cache: "no-store" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const now = document.querySelector("main"), next = page.querySelector("main");
  if (!next || shown === next.innerHTML) return;
  shown = next.innerHTML;
  const open = [...now.querySelectorAll("details")].map((each) => each.open);
  const focused = document.activeElement && document.activeElement.getAttribute("href");
  const typed = [...now.querySelectorAll("input")].map((each) => each.value);
  now.replaceChildren(...next.childNodes);
  offerCopies();
  fetchFigures();
  now.querySelectorAll("details").forEach((each, n) => { if (n < open.length) each.open = open[n]; });
  now.querySelectorAll("input").forEach((each, n) => { if (n < typed.length) each.value = typed[n]; });
  if (focused) [...now.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus({ preventScroll: true });
}

let waiting = false;
const events = new EventSource(document.body.dataset.events);
events.addEventListener("changed", async () => {
  if (waiting) return;
  waiting = true;
  try { await refresh(); } finally { waiting = false; }
});
