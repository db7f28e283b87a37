/** What became of the recent fires, and when the next ones are. */
import { fill, h } from "../dom.js";
import { duration } from "../durations.js";
import { grid } from "../grid.js";
import { runUrl } from "../links.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { badge } from "../verdicts.js";

const RECENT = 10;

/** @param {HTMLElement} box @param {any[]} fires newest first @param {string} zone */
export function showRecent(box, fires, zone) {
  const columns = [
    { key: "planned", draw: (/** @type {any} */ fire) => [stamp(fire.planTime, { zone }), fire.rangeEndTime && [" … ", stamp(fire.rangeEndTime, { zone })]].flat() },
    { key: "verdict", draw: (/** @type {any} */ fire) => badge(fire.verdict, { href: fire.runId && fire.startTime ? runUrl(fire.runId) : undefined }) },
    { key: "why", draw: why, className: "wraps sub" },
  ];
  fill(box, fires.length ? grid(t("job.recent"), columns, fires.slice(0, RECENT)) : h("p", { class: "muted" }, t("job.recent.none")));
}

/** @param {any} fire */
function why({ count, reason, startTime, endTime, planTime }) {
  const many = count > 1 && t("job.fires", { n: count });
  const took = startTime && endTime && t("job.took", { time: duration(endTime - startTime) });
  const late = startTime - planTime >= 1000 && t("job.late", { time: duration(startTime - planTime) });
  return [many, reason, !reason && took, late].filter(Boolean).join("; ");
}

/** @param {HTMLElement} box @param {any[]} fires @param {string} zone @param {string} none why there are none */
export function showUpcoming(box, fires, zone, none) {
  const columns = [
    { key: "planned", draw: (/** @type {any} */ fire) => stamp(fire.ms, { zone }) },
    { key: "in", draw: (/** @type {any} */ fire) => stamp(fire.ms, { as: "until" }) },
    { key: "note", draw: (/** @type {any} */ fire) => fire.note, className: "wraps sub tone-warn" },
  ];
  const noted = fires.some((fire) => fire.note);
  fill(box, fires.length ? grid(t("job.upcoming"), columns.filter(({ key }) => noted || key !== "note"), fires) : h("p", { class: "muted" }, none));
}
