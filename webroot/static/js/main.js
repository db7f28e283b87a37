/** Starts what every page has, then the page's own scripts. */
import { startBar } from "./bar.js";
import { startBell } from "./bell.js";
import { findCaller, mayAnything } from "./caller.js";
import { startChip } from "./chip.js";
import { byId } from "./dom.js";
import { startKeys } from "./keys.js";
import { start as startLive } from "./live/live.js";
import { startMark } from "./mark.js";
import { showCaller } from "./me.js";
import { notePresses } from "./pressed.js";
import { sayAgain } from "./undo.js";

const { page, target } = document.body.dataset;
startBar();
startKeys();
if (page === "login") {
  await (await import(`./${page}/page.js`)).start();
} else {
  const pressAgain = notePresses();
  startChip(byId("live"));
  const [{ start }, caller] = await Promise.all([import(`./${page}/page.js`), findCaller()]);
  showCaller(caller);
  const searches = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("main input[type=search]"));
  const typed = [...searches].map((search) => search.value);
  const started = start(target);
  const asked = new URLSearchParams(window.location.search);
  searches.forEach((search, at) => {
    if (!typed[at] || typed[at].trim() === asked.get(search.name)) return; // a browser that goes back fills it in
    // While scripts and caller were on their way; no event tells it to those who listen now.
    if (search.value !== typed[at]) search.value = typed[at];
    search.dispatchEvent(new Event("input", { bubbles: true }));
  });
  pressAgain();
  byId("live").hidden = !mayAnything("viewer");
  if (mayAnything("viewer")) {
    startMark();
    startLive(); // before what it loads is there: a change meanwhile would be missed
    void startBell();
  }
  sayAgain();
  await started;
}
