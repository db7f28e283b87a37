/** Whether all is well: how many jobs are in which state, each a link to them. */
import { get } from "../api.js";
import { byId, h } from "../dom.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { number, t } from "../text.js";

const STATES = ["failing", "running", "paused", "broken"];

export function start() {
  const page = new Refresher(load);
  on(["again", "jobs", "runs"], () => page.soon());
  return page.now();
}

/** @param {AbortSignal} signal */
async function load(signal) {
  try {
    const found = await Promise.all(STATES.map((state) => get("/jobs", { query: { state, limit: 1 }, signal })));
    redraw(byId("tiles"), STATES.map((state, index) => h("a", { class: "tile", href: `/jobs?state=${state}` }, h("strong", {}, number(found[index].total)), " ", t(`filter.${state}`))));
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
  }
  byId("tiles").setAttribute("aria-busy", "false");
}
