/** Starts what every page has, then the page's own scripts. */
import { startBar } from "./bar.js";
import { startChip } from "./chip.js";
import { byId } from "./dom.js";
import { startKeys } from "./keys.js";
import { start as startLive } from "./live/live.js";

const { page, target } = document.body.dataset;
startBar();
startChip(byId("live"));
startKeys();
const { start } = await import(`./${page}/page.js`);
const started = start(target);
startLive(); // before what it loads is there: a change meanwhile would be missed
await started;
