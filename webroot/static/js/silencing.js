/** Keeping messages back: of a job for a while, or of its open alert until that is over. */
import { ApiError, send } from "./api.js";
import { askFields } from "./asking.js";
import { offered } from "./caller.js";
import { now } from "./clock.js";
import { h, icon } from "./dom.js";
import { toast } from "./notices.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";
import { mondayMs } from "./zones.js";

/** A silence names as many jobs at most. */
const MOST_JOBS = 100;
/** As many may be asked for at once. */
const AT_ONCE = 4;

/** By their names, in hours. @type {Record<string, number>} */
const HOURS = { "1h": 1, "4h": 4 };
const SPANS = [...Object.keys(HOURS), "monday"];

/** @typedef {{id: string, job: string | null, subject: string | null, kind: string, state: string, sinceTime: number, endTime?: number, count: number, lastRun?: string, reason?: string, lastSuccessTime?: number, toldTime?: number, channels: string[], labels: Record<string, string>, flapping: boolean, well: boolean, acknowledged: {by: string, time: number} | null, silencedUntil: number | null}} Alert */

/** The buttons of an open alert of a job. @param {Alert} alert */
export function silencers({ job, labels, acknowledged, silencedUntil }) {
  if (!job) return [];
  const button = (/** @type {string} */ what, /** @type {string} */ glyph) => h("button", {
    type: "button", class: "btn btn-plain", "data-key": what, "data-silence": what, "data-job": job,
    "aria-label": `${what === "ack" ? "" : `${t("silence.make")}${t("colon")}`}${t(`silence.${what}`)}: ${job}`, ...offered("pause", labels),
  }, icon(glyph), " ", t(`silence.${what}`));
  return [!acknowledged && button("ack", "check2"), ...(silencedUntil ? [] : SPANS.map((what) => button(what, "bell-slash")))];
}

/** The same behind one button, of one alert or of several. @param {string} key @param {Alert[]} alerts @param {string} what in words */
export function silenceMenu(key, alerts, what) {
  const labels = alerts.map((one) => offered("pause", one.labels)).find(({ disabled }) => disabled) ?? {};
  const spans = alerts.every((one) => one.silencedUntil) ? [] : SPANS;
  const items = [...(alerts.every((one) => one.acknowledged) ? [] : ["ack"]), ...spans];
  return items.length > 0 && h("div", { class: "dropdown", "data-key": "silencing" },
    h("button", { type: "button", class: "btn btn-plain", "data-key": "silence", "data-bs-toggle": "dropdown", "data-bs-popper-config": "{\"strategy\": \"fixed\"}", "aria-expanded": "false", "aria-label": `${t("silence.make")}${t("colon")}${what}`, ...labels }, icon("bell-slash"), " ", t("silence.make")),
    h("div", { class: "dropdown-menu dropdown-menu-end" }, items.map((one) => h("button", { type: "button", class: "dropdown-item", "data-silence": one, "data-of": key }, icon(one === "ack" ? "check2" : "bell-slash"), " ", t(`silence.${one}`)))));
}

/** @param {Alert} alert */
export const quiet = ({ acknowledged, silencedUntil }) => [
  acknowledged && h("div", { class: "sub" }, t("alert.acknowledged", { by: acknowledged.by }), " ", stamp(acknowledged.time)),
  silencedUntil && h("div", { class: "sub" }, t("alert.silenced"), " ", stamp(silencedUntil)),
];

/** @param {string[]} jobs @param {string} what as the button says @returns {Promise<boolean>} whether it was done */
export async function silence(jobs, what) {
  try {
    let time = "";
    if (what === "ack") await acknowledge(jobs);
    else time = await keepQuiet(jobs, what);
    const key = what === "ack" ? "silence.done.ack" : "silence.done";
    toast(jobs.length === 1 ? t(key, { job: jobs[0], time }) : t(`${key}.many`, { n: jobs.length, time }));
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, "bad");
    return false;
  }
}

/** Asks for how long. @param {string[]} jobs */
export function silenceAll(jobs) {
  return askFields({
    title: `${t("silence.make")}: ${jobs.length > 1 ? t("overview.jobs", { n: jobs.length }) : jobs[0]}`, action: t("silence.make"), intro: [h("p", {}, t("silence.what"))],
    fields: [{ name: "untilTime", label: t("silence.for"), options: SPANS.map((what) => [what, t(`silence.${what}`)]) }],
    send: async ({ untilTime }) => {
      toast(t("silence.made", { time: await keepQuiet(jobs, untilTime) }));
    },
  });
}

/** @param {string[]} jobs @param {string} what @returns {Promise<string>} until when */
async function keepQuiet(jobs, what) {
  const span = HOURS[what] ? { hours: HOURS[what] } : { untilTime: mondayMs(now()) };
  let time = "";
  for (let at = 0; at < jobs.length; at += MOST_JOBS) {
    time = endOf(await send("POST", "/silences", { body: { jobs: jobs.slice(at, at + MOST_JOBS), ...span, reason: t("silence.by.console") } }));
  }
  return time;
}

/** @param {any} answer of POST /silences */
export const endOf = ({ silence: { untilTime } }) => new Date(untilTime).toISOString();

/** Whose alert is over meanwhile needs it no more. @param {string[]} jobs */
async function acknowledge(jobs) {
  const left = [...jobs];
  const one = async () => {
    for (let job = left.shift(); job !== undefined; job = left.shift()) {
      await send("POST", "/alerts/ack", { body: { job } }).catch((error) => {
        if (jobs.length === 1 || error.status !== 409) throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}
