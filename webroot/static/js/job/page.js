/** One job: whether it is well, its runs, its schedule, its versions; a deleted one has them still. */
import { act } from "../actions.js";
import { get, jobPath } from "../api.js";
import { mayAnything } from "../caller.js";
import { everySecond, now } from "../clock.js";
import { byId, delegate, h, icon } from "../dom.js";
import { onKey } from "../keys.js";
import { encoded } from "../links.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { getJob } from "../written.js";
import { onChange } from "../zones.js";
import { showDefinition } from "./definition.js";
import { Fires } from "./fires.js";
import { showHead, showZones } from "./head.js";
import { showHealth } from "./health.js";
import { showNotifications } from "./notifications.js";
import { showStatisticsWhenOpened } from "./statistics.js";
import { Tabs } from "./tabs.js";
import { Versions } from "./versions.js";

/** However often it fires, its page asks once a second. */
const EVERY_MS = 1000;

/** @typedef {{name: string, job: any, isGone: boolean, fires: Fires, versions: Versions, tabs: Tabs}} Shown */

/** @param {string} name */
export async function start(name) {
  const again = () => {
    page.heard();
    void page.now();
  };
  /** @type {import("./later/durations.js").Durations | undefined} */
  let durations;
  const draw = async () => {
    const { Durations } = await import("./later/durations.js");
    durations ??= new Durations(name, () => shown.job?.spec?.timezone, () => tabs.open === "overview");
    await durations.open();
  };
  const tabs = new Tabs((tab) => {
    if (tab === "overview") void draw();
    void page.now();
  });
  /** @type {Shown} */
  const shown = { name, job: null, isGone: false, tabs, fires: new Fires(name, () => void page.now()), versions: new Versions(name, again, () => page.later()) };
  const page = new Refresher(async (signal) => {
    try {
      if ((await load(shown, signal)).length) page.later();
    } catch (error) {
      if (signal.aborted) throw error;
      if (error.status === 404) return showMissing(name, error.message);
      note(byId("problem"), error.message);
      if (error.mayPass) page.soon();
    }
  }, EVERY_MS);
  byId("all-runs").setAttribute("href", `/runs?job=${encoded(name)}`);
  showStatisticsWhenOpened(name);
  void showNotifications(name);
  delegate(byId("actions"), "click", "[data-action]", async ({ dataset: { action } }) => {
    if (!(await act(action, name))) return;
    if (action === "delete") window.location.assign("/jobs");
    else again();
  });
  on(["again", "workers", "health"], () => page.soon());
  on(["jobs"], ({ all, names = [] }) => (all || names.includes(name)) && page.changed());
  on(["runs"], ({ jobs }) => name in jobs && page.changed());
  onChange(() => showZones(shown.job?.spec?.timezone));
  everySecond(() => shown.job?.nextFire && shown.job.nextFire.ms < now() - 500 && page.soon());
  onKey("e", () => document.getElementById("edit")?.click());
  await page.now();
  if (tabs.open === "overview" && !byId("job").hidden) await draw();
}

/** @param {Shown} shown @param {AbortSignal} signal @returns {Promise<string[]>} warnings of what it shows that may pass */
async function load(shown, signal) {
  const { name, fires, versions, tabs } = shown;
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
    showZones(job.spec?.timezone);
  }
  byId("missing").hidden = true;
  byId("job").hidden = false;
  const loads = { runs: () => fires.load(job, signal), schedule: async () => (await import("./later/schedule.js")).showSchedule(name, job, signal), versions: () => versions.load(signal) };
  const parts = await Promise.allSettled([job && showHealth(job, signal), loads[tabs.open]?.()]);
  byId("job").setAttribute("aria-busy", "false");
  const failed = parts.find(({ status }) => status === "rejected"); // only now: else what is late could come after what is newer
  if (failed) throw failed.reason;
  note(byId("problem"), job?.problem ?? null); // while they fail, what is said stays
  return [job, /** @type {any} */ (parts[1]).value].flatMap((one) => one?.warnings ?? []);
}

/** There is no such job, and there was none. @param {string} name @param {string} message */
function showMissing(name, message) {
  byId("job").hidden = true;
  byId("missing").hidden = false;
  byId("job").setAttribute("aria-busy", "false");
  [byId("actions"), byId("state"), byId("problem")].forEach((box) => redraw(box));
  redraw(byId("missing"), h("div", { class: "empty" }, h("p", { class: "sentence" }, h("strong", {}, message)),
    h("p", { class: "buttons-of" }, h("a", { class: "btn btn-plain", href: `/jobs?q=${encoded(name)}` }, t("job.missing.search")), mayAnything("editor") && h("a", { class: "btn btn-plain", href: "/new" }, t("jobs.new")))));
}

/** Whether there was such a job: then its versions are there, and the way back. @param {Shown} shown @param {AbortSignal} signal */
async function showGone(shown, signal) {
  const { deleted, items } = (await shown.versions.load(signal)) ?? {};
  if (!deleted) return false;
  const last = await get(`${jobPath(shown.name)}/versions/${items[0].revision}`, { signal });
  shown.job = null;
  [byId("actions"), byId("state"), byId("facts")].forEach((box) => redraw(box));
  redraw(byId("health"));
  showDefinition(last);
  showZones(undefined);
  byId("facts").hidden = true;
  redraw(byId("paused"), h("p", { class: "note note-warn", id: "deleted" }, icon("trash"), h("span", {},
    t("job.deleted", { by: deleted.by ?? "?" }), " ", stamp(deleted.ms), ", ", stamp(deleted.ms, { as: "ago" }), ". ", t("job.deleted.back"))));
  if (!shown.isGone) shown.tabs.choose("versions"); // else who has gone elsewhere would come back here each time
  shown.isGone = true;
  return true;
}
