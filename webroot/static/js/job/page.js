/** One job: its fires, its runs. */
import { act } from "../actions.js";
import { get, jobPath } from "../api.js";
import { everySecond, now } from "../clock.js";
import { byId } from "../dom.js";
import { onKey } from "../keys.js";
import { on } from "../live/live.js";
import { note } from "../notices.js";
import { Refresher } from "../refresher.js";
import { RunList, whyOf } from "../runs/list.js";
import { t } from "../text.js";
import { $ } from "../vendor.js";
import { showRecent, showUpcoming } from "./fires.js";
import { showHead } from "./head.js";

/** @param {string} name */
export async function start(name) {
  const shown = { job: /** @type {any} */ (null) };
  const runs = new RunList(byId("runs"), { caption: t("job.log"), query: () => ({ job: name }), job: false, zoneOf: () => shown.job?.spec?.timezone });
  const page = new Refresher(async (signal) => {
    try {
      await load(name, shown, runs, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      note(byId("problem"), error.message);
    }
  });
  runs.onStep = () => void page.now();
  $("#actions").on("click", "[data-action]", async (event) => {
    const { action } = event.currentTarget.dataset;
    if (!(await act(action, name))) return;
    if (action === "delete") window.location.assign("/");
    else void page.now();
  });
  on(["again"], () => page.soon());
  on(["jobs"], ({ all, names = [] }) => (all || names.includes(name)) && page.soon());
  on(["runs"], ({ jobs }) => name in jobs && page.soon());
  everySecond(() => shown.job?.nextFire && shown.job.nextFire.ms < now() - 500 && page.soon());
  onKey("e", () => byId("edit").click());
  await page.now();
  if (window.location.hash === "#log") byId("log").scrollIntoView();
}

/** @param {string} name @param {{job: any}} shown @param {RunList} runs @param {AbortSignal} signal */
async function load(name, shown, runs, signal) {
  const [job, fires] = await Promise.all([get(jobPath(name), { signal }), get(`${jobPath(name)}/fires`, { signal })]);
  shown.job = job;
  const zone = job.spec?.timezone;
  showHead(job);
  showUpcoming(byId("upcoming"), fires.upcoming, zone, t(job.state === "paused" ? "job.upcoming.paused" : "job.upcoming.none"));
  byId("facts").setAttribute("aria-busy", "false");
  note(byId("problem"), job.problem);
  const items = await runs.load(signal, job.running.map((/** @type {any} */ run) => ({ ...run, jobName: name })));
  const errors = new Map(items.map((run) => [run.id, whyOf(run)]));
  showRecent(byId("recent"), fires.recent.map((/** @type {any} */ fire) => ({ ...fire, reason: errors.get(fire.runId) || fire.reason })), zone);
}
