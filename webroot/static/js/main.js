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
import { sayAgain } from "./undo.js";

const { page, target } = document.body.dataset;
startBar();
startKeys();
if (page === "login") {
  await (await import(`./${page}/page.js`)).start();
} else {
  startChip(byId("live"));
  const [{ start }, caller] = await Promise.all([import(`./${page}/page.js`), findCaller()]);
  showCaller(caller);
  const search = /** @type {HTMLInputElement | null} */ (document.querySelector("main input[type=search]:focus"));
  const typed = search?.value;
  const started = start(target);
  if (search && typed) {
    // While scripts and caller were on their way; no event tells it to those who listen now.
    search.value = typed;
    search.dispatchEvent(new Event("input", { bubbles: true }));
  }
  byId("live").hidden = !mayAnything("viewer");
  if (mayAnything("viewer")) {
    startMark();
    startLive(); // before what it loads is there: a change meanwhile would be missed
    void startBell();
  }
  sayAgain();
  await started;
}
