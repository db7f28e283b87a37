/** Keeping messages back: of a job for a while, or of its open alert until that is over. */
import { ApiError, send } from "./api.js";
import { askFields } from "./asking.js";
import { offered } from "./caller.js";
import { h, icon } from "./dom.js";
import { toast } from "./notices.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";

const HOUR_MS = 3_600_000;
/** When a week of work begins, on the clock of who looks. */
const MORNING_HOUR = 8;

const SPANS = ["1h", "4h", "monday"];

/** @typedef {{id: string, job: string | null, subject: string | null, kind: string, state: string, sinceTime: number, endTime?: number, count: number, lastRun?: string, reason?: string, lastSuccessTime?: number, toldTime?: number, channels: string[], labels: Record<string, string>, flapping: boolean, acknowledged: {by: string, time: number} | null, silencedUntil: number | null}} Alert */

/** The buttons of an open alert of a job. @param {Alert} alert */
export function silencers({ job, labels, acknowledged, silencedUntil }) {
  if (!job) return [];
  const button = (/** @type {string} */ what, /** @type {string} */ glyph) => h("button", {
    type: "button", class: "btn btn-plain", "data-key": what, "data-silence": what, "data-job": job,
    "aria-label": `${what === "ack" ? "" : `${t("silence.make")}${t("colon")}`}${t(`silence.${what}`)}: ${job}`, ...offered("pause", labels),
  }, icon(glyph), " ", t(`silence.${what}`));
  return [!acknowledged && button("ack", "check2"), ...(silencedUntil ? [] : SPANS.map((what) => button(what, "bell-slash")))];
}

/** @param {Alert} alert */
export const quiet = ({ acknowledged, silencedUntil }) => [
  acknowledged && h("div", { class: "sub" }, t("alert.acknowledged", { by: acknowledged.by }), " ", stamp(acknowledged.time)),
  silencedUntil && h("div", { class: "sub" }, t("alert.silenced"), " ", stamp(silencedUntil)),
];

/** @param {string} job @param {string} what as the button says @returns {Promise<boolean>} whether it was done */
export async function silence(job, what) {
  try {
    if (what === "ack") await send("POST", "/alerts/ack", { body: { job } });
    else await keepQuiet([job], what);
    toast(t(what === "ack" ? "silence.done.ack" : "silence.done", { job }));
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
      await keepQuiet(jobs, untilTime);
      toast(t("silence.made"));
    },
  });
}

/** @param {string[]} jobs @param {string} what */
const keepQuiet = (jobs, what) => send("POST", "/silences", { body: { jobs, untilTime: untilMs(what), reason: t("silence.by.console") } });

/** @param {string} what */
function untilMs(what) {
  if (what !== "monday") return Date.now() + Number(what.replace("h", "")) * HOUR_MS;
  const monday = new Date();
  monday.setDate(monday.getDate() + ((8 - monday.getDay()) % 7 || 7));
  return monday.setHours(MORNING_HOUR, 0, 0, 0);
}
