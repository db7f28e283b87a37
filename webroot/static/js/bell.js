/** The bell in the bar: how many alerts are open, of those that the caller may see. */
import { get } from "./api.js";
import { byId, fill, icon } from "./dom.js";
import { on } from "./live/live.js";
import { Refresher } from "./refresher.js";
import { t } from "./text.js";

const EVERY_MS = 15_000;

export function startBell() {
  const bell = byId("bell");
  const count = new Refresher(async (signal) => {
    const open = await get("/alerts", { query: { state: "open", limit: 1 }, signal }).then((found) => found.open, () => null);
    if (open === null) return; // other places say what is away
    bell.hidden = false;
    bell.classList.toggle("tone-bad", open > 0);
    const label = t("bell.open", { n: open });
    bell.setAttribute("aria-label", label);
    bell.title = label;
    fill(bell, icon(open ? "bell-fill" : "bell"), open > 0 && ` ${open}`);
  }, EVERY_MS);
  on(["again", "runs", "ping"], () => count.soon());
  return count.now();
}
