/** All runs, those that are going first, and fires that were not run, of all jobs. */
import { byId } from "../dom.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { Refresher } from "../refresher.js";
import { t } from "../text.js";
import { RunList } from "./list.js";

const NAMES = ["job", "status", "worker"];

export function start() {
  const form = /** @type {HTMLFormElement} */ (byId("filters"));
  const list = new RunList(byId("runs"), { caption: t("title.runs"), query });
  const refresher = new Refresher(async (signal) => {
    try {
      const { items, warnings } = await list.load(signal);
      note(byId("problem"), warnings.join("; ") || null);
      if (items.some(({ state }) => state === "claimed")) refresher.soon(); // no event tells when it starts
    } catch (error) {
      if (signal.aborted) throw error;
      note(byId("problem"), error.message);
      if (error.mayPass) refresher.soon();
    }
  });
  list.onStep = () => void refresher.now();
  let typing = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    const search = new URLSearchParams({ ...query(), [target.name]: target.value.trim() });
    NAMES.filter((name) => !search.get(name)).forEach((name) => search.delete(name));
    window.history.replaceState(null, "", search.size ? `/runs?${search}` : "/runs");
    list.reset();
    window.clearTimeout(typing);
    typing = window.setTimeout(() => void refresher.now(), 200);
  });
  for (const [name, value] of Object.entries(query())) form.elements[name].value = value;
  on(["again", "runs", "health"], () => refresher.soon());
  on(["jobs"], ({ all }) => all && refresher.soon()); // the runs of so many that nobody names them
  return refresher.now();
}

function query() {
  const search = new URLSearchParams(window.location.search);
  return Object.fromEntries(NAMES.map((name) => [name, search.get(name) ?? ""]));
}
