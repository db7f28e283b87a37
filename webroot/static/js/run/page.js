/** One run: what is known of it, and everything that it printed. */
import { download, get, jobPath, send } from "../api.js";
import { offered } from "../caller.js";
import { ask } from "../dialogs.js";
import { byId, delegate, fill, h, icon } from "../dom.js";
import { keep, kept } from "../kept.js";
import { on } from "../live/live.js";
import { note, toast } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { size, t } from "../text.js";
import { showFacts } from "./facts.js";
import { Find } from "./find.js";
import { showLife } from "./life.js";
import { Output } from "./output.js";

const WRAP = "etcron.wrap";
/** A run that is going is looked at by itself, too: the event of its end may have been missed. */
const LOOK_MS = 5000;
/** A kill that is pending for so long: the worker cannot end the run. */
const OVERDUE_MS = 60_000;
/** One that waits to be claimed has no events. */
const WAITS_MS = 2000;

/** @param {string} id */
export function start(id) {
  const output = new Output(byId("output"));
  const find = new Find(output);
  const shown = { run: /** @type {any} */ (null), zone: /** @type {string | undefined} */ (undefined) };
  let look = 0;
  const page = new Refresher(async (signal) => {
    try {
      shown.run = await get(`/runs/${encodeURIComponent(id)}`, { signal });
      shown.zone ??= await zoneOf(shown.run.jobName, signal);
      show(shown.run, shown.zone, output, find);
      note(byId("problem"), null);
    } catch (error) {
      if (signal.aborted) throw error;
      note(byId("problem"), error.message);
    }
    byId("facts").setAttribute("aria-busy", "false");
    window.clearTimeout(look);
    if (isChanging(shown.run)) look = window.setTimeout(() => page.soon(), shown.run?.state === "created" ? WAITS_MS : LOOK_MS);
  }, 1000);
  on(["again"], () => isChanging(shown.run) && page.soon());
  on(["runs"], ({ jobs }) => isChanging(shown.run) && (!shown.run || shown.run.jobName in jobs) && page.heard());
  startTools(id, output, () => void page.now(), shown);
  return page.now();
}

/** Whether there is more to come of it. @param {any} run */
const isChanging = (run) => !run?.status || run.state === "ending";

/** A job that is gone has no zone any more. @param {string} job @param {AbortSignal} signal */
async function zoneOf(job, signal) {
  const found = await get(jobPath(job), { signal }).catch(() => null);
  return found?.spec?.timezone ?? "";
}

/** @param {any} run @param {string} zone @param {Output} output @param {Find} find */
function show(run, zone, output, find) {
  showFacts(run, zone);
  showLife(byId("life"), run, zone);
  const open = ["created", "claimed", "running"].includes(run.state);
  const actions = byId("actions");
  const isEnding = run.state === "ending";
  if (isEnding && !actions.querySelector("#give-up")) fill(actions);
  if (actions.childElementCount === 0 && open) fill(actions, h("button", { type: "button", class: "btn btn-danger", id: "kill", ...offered("kill", run.labels) }, icon("x-octagon"), " ", t("action.kill")));
  if ((isEnding || (open && run.killPendingMs >= OVERDUE_MS)) && !actions.querySelector("#give-up")) actions.append(h("button", { type: "button", class: "btn btn-danger", id: "give-up", ...offered("give-up", run.labels) }, icon("slash-circle"), " ", t("action.give-up")));
  if (!open && !isEnding) fill(actions);
  byId("output-tools").hidden = !run.output;
  if (!run.output) {
    output.none(open ? t("run.output.later") : whyNone(run));
    return;
  }
  const isNew = output.show(run.output);
  if (isNew && find.field.value) find.search(); // else whoever goes from place to place would be at the first one again
  byId("output-size").textContent = size(run.outputBytes ?? run.output.length);
  redraw(byId("cut"), run.outputTruncated && h("p", { class: "note note-warn" }, icon("exclamation-triangle-fill"), h("span", {}, t("run.cut", { printed: size(run.outputBytes) }))));
}

/** Of a lost run nobody knows whether it printed anything, and often not whether it had started. @param {any} run */
function whyNone({ status, startTime }) {
  if (status === "lost") return t("run.output.lost");
  return t(startTime ? "run.no.output" : "run.not.started");
}

/** @param {string} id @param {Output} output @param {() => void} again @param {{run: any}} shown */
function startTools(id, output, again, shown) {
  const wrap = byId("wrap");
  const setWrap = (/** @type {boolean} */ on) => {
    wrap.setAttribute("aria-pressed", String(on));
    output.wrap(on);
  };
  setWrap(kept(WRAP) !== "no");
  wrap.addEventListener("click", () => {
    setWrap(!output.wraps);
    keep(WRAP, output.wraps ? "yes" : "no");
  });
  byId("download").addEventListener("click", () => void save(id));
  byId("copy").addEventListener("click", () => void copy(output));
  delegate(byId("actions"), "click", "#kill, #give-up", async ({ id: action }) => {
    const body = [h("p", {}, t(shown.run.worker ? `ask.${action}.run` : "ask.kill.run.waiting", { job: shown.run.jobName, worker: shown.run.worker ?? "" }))];
    const label = t(action === "kill" ? "reason" : "reason.needed");
    const reason = await ask({ title: `${t(`action.${action}`)}: ${shown.run.jobName}`, body, action: t(`action.${action}`), tone: "danger", reason: label });
    if (reason === null) return;
    try {
      const { message, outcome } = await send("POST", `/runs/${encodeURIComponent(id)}/${action}`, { body: reason ? { reason } : {} });
      toast(message || outcome);
    } catch (error) {
      toast(error.message, "bad");
    }
    again();
  });
}

/** As a file; not by a link, which cannot carry what a session needs. @param {string} id */
async function save(id) {
  try {
    const url = URL.createObjectURL(await download(`/runs/${encodeURIComponent(id)}/output?download=1`));
    h("a", { href: url, download: `${id.replace(/[^\w.-]+/g, "-")}.txt` }).click();
    window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    toast(error.message, "bad");
  }
}

/** Where the browser gives no clipboard (plain http), the text is selected, for Ctrl-C. @param {Output} output */
async function copy(output) {
  try {
    await navigator.clipboard.writeText(output.text);
    toast(t("run.copied"));
  } catch {
    window.getSelection().selectAllChildren(output.box);
    toast(t("run.selected"));
  }
}
