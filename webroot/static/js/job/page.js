/** One job: its fires, its runs, its versions; a deleted one has them still. */
import { act } from "../actions.js";
import { get, jobPath } from "../api.js";
import { everySecond, now } from "../clock.js";
import { byId, delegate, h, icon } from "../dom.js";
import { onKey } from "../keys.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { RunList } from "../runs/list.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { getJob } from "../written.js";
import { showDefinition } from "./definition.js";
import { Fires } from "./fires.js";
import { showHead } from "./head.js";
import { showNotifications } from "./notifications.js";
import { showStatisticsWhenOpened } from "./statistics.js";
import { Versions } from "./versions.js";

/** @typedef {{name: string, job: any, isGone: boolean, runs: RunList, fires: Fires, versions: Versions}} Shown */

/** @param {string} name */
export async function start(name) {
  const again = () => {
    page.heard();
    void page.now();
  };
  const runs = new RunList(byId("runs"), { caption: t("job.log"), query: () => ({ job: name }), job: false, zoneOf: () => shown.job?.spec?.timezone });
  /** @type {Shown} */
  const shown = { name, job: null, isGone: false, runs, fires: new Fires(name, () => void page.now()), versions: new Versions(name, again) };
  const page = new Refresher(async (signal) => {
    try {
      await load(shown, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      note(byId("problem"), error.message);
      if (error.mayPass) page.soon();
    }
    byId("facts").setAttribute("aria-busy", "false");
  });
  showStatisticsWhenOpened(name);
  void showNotifications(name);
  runs.onStep = () => void page.now();
  delegate(byId("actions"), "click", "[data-action]", async ({ dataset: { action } }) => {
    if (!(await act(action, name))) return;
    if (action === "delete") window.location.assign("/jobs");
    else again();
  });
  on(["again", "workers", "health"], () => page.soon());
  on(["jobs"], ({ all, names = [] }) => (all || names.includes(name)) && page.heard());
  on(["runs"], ({ jobs }) => name in jobs && page.heard());
  everySecond(() => shown.job?.nextFire && shown.job.nextFire.ms < now() - 500 && page.soon());
  onKey("e", () => document.getElementById("edit")?.click());
  await page.now();
  if (window.location.hash === "#log") byId("log").scrollIntoView();
}

/** @param {Shown} shown @param {AbortSignal} signal */
async function load(shown, signal) {
  const { name, runs, fires, versions } = shown;
  try {
    shown.job = await getJob(name, { signal });
  } catch (error) {
    if (error.status !== 404) throw error;
    if (!(await showGone(shown, signal))) throw error;
  }
  const { job } = shown;
  if (job) {
    shown.isGone = false;
    byId("facts").hidden = false;
    showHead(job);
    byId("facts").setAttribute("aria-busy", "false");
  }
  const parts = await Promise.allSettled([fires.load(job, signal), runs.load(signal), versions.isOpen && versions.load(signal)]);
  const failed = parts.find(({ status }) => status === "rejected"); // only now: else what is late could come after what is newer
  if (failed) throw failed.reason;
  note(byId("problem"), job?.problem ?? null); // while they fail, what is said stays
}

/** Whether there was such a job: then its versions are there, and the way back. @param {Shown} shown @param {AbortSignal} signal */
async function showGone(shown, signal) {
  const { deleted, items } = (await shown.versions.load(signal)) ?? {};
  if (!deleted) return false;
  const last = await get(`${jobPath(shown.name)}/versions/${items[0].revision}`, { signal });
  shown.job = null;
  [byId("actions"), byId("state"), byId("facts")].forEach((box) => redraw(box));
  showDefinition(byId("definition"), last, ["name"]);
  byId("facts").hidden = true;
  redraw(byId("paused"), h("p", { class: "note note-warn", id: "deleted" }, icon("trash"), h("span", {},
    t("job.deleted", { by: deleted.by ?? "?" }), " ", stamp(deleted.ms), ", ", stamp(deleted.ms, { as: "ago" }), ". ", t("job.deleted.back"))));
  if (!shown.isGone) shown.versions.open(); // else who has closed them would see them opened each time
  shown.isGone = true;
  return true;
}
