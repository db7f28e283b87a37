/** Runs of all jobs, those that are going first, and fires that were not run; or what failed, counted by its error. */
import { byId } from "../dom.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { Refresher } from "../refresher.js";
import { Filters } from "./filters.js";
import { loadGroups } from "./groups.js";
import { RunList } from "./list.js";
import { asked, isNarrow, query } from "./query.js";

export async function start() {
  const list = new RunList(byId("runs"), { query: () => asked(query()), key: () => JSON.stringify(query()), isNarrow: () => isNarrow(query()) });
  const filters = new Filters(() => {
    list.reset();
    void refresher.now();
  });
  const refresher = new Refresher(async (signal) => {
    try {
      void filters.count(signal);
      const { items, warnings } = query().group ? await loadGroups(signal) : await list.load(signal);
      note(byId("problem"), warnings.join("; ") || null);
      if (warnings.length) refresher.later();
      if (items.some((/** @type {any} */ run) => run.state === "claimed")) refresher.soon(); // no event tells when it starts
    } catch (error) {
      if (signal.aborted) throw error;
      note(byId("problem"), error.message);
      if (error.mayPass) refresher.soon();
    }
    byId("runs").setAttribute("aria-busy", "false");
  });
  list.onStep = () => void refresher.now();
  window.addEventListener("pagehide", () => window.history.replaceState({ ...window.history.state, top: window.scrollY }, ""));
  on(["again", "runs", "health"], () => refresher.soon());
  on(["jobs"], ({ all }) => all && refresher.soon()); // the runs of so many that nobody names them
  const top = window.history.state?.top;
  await refresher.now();
  if (top) window.scrollTo(0, top);
}
