// Pages are whole without this: it writes times in the reader's zone, tells of new steps, and moves
// through lists by keys.
"use strict";
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.getAttribute("datetime"));
  if (isNaN(at)) continue;
  const two = (number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  time.textContent = `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

for (const note of document.querySelectorAll("[data-live]")) {
  const link = note.querySelector("a");
  const stream = new EventSource(note.dataset.live);
  stream.addEventListener("step", (event) => {
    const more = Number(event.data) - Number(note.dataset.last);
    link.textContent = more === 1 ? "1 new step" : `${more} new steps`;
    const to = new URL(link.href);
    to.searchParams.set("after", Math.max(0, Number(event.data) - 50));
    link.href = to;
    note.hidden = false;
  });
  addEventListener("pagehide", () => stream.close());
}

const rows = [...document.querySelectorAll("tr[data-row]")];
let here = -1;
function go(to) {
  if (!rows.length) return;
  if (here >= 0) rows[here].removeAttribute("data-here");
  here = Math.max(0, Math.min(rows.length - 1, to));
  rows[here].setAttribute("data-here", "");
  rows[here].scrollIntoView({ block: "nearest" });
}
const follow = (selector) => document.querySelector(selector)?.click();
const KEYS = {
  j: () => go(here + 1),
  k: () => go(here - 1),
  Enter: () => here >= 0 && rows[here].querySelector("a")?.click(),
  o: () => { const inner = here >= 0 && rows[here].querySelector("details"); if (inner) inner.open = !inner.open; },
  n: () => follow("a[rel=next]"),
  p: () => follow("a[rel=prev]"),
  "/": () => document.querySelector("[data-search]")?.focus(),
};
document.addEventListener("keydown", (event) => {
  const inField = event.target.closest("input, textarea, select, button, a, summary");
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key] || (inField && (event.key === "Enter" || inField.matches("input, textarea, select")))) return;
  event.preventDefault();
  KEYS[event.key]();
});
