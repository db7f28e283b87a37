/** What a worker's beat says, in the list of workers and on its own page. */
import { now } from "../clock.js";
import { h } from "../dom.js";
import { duration } from "../durations.js";
import { t } from "../text.js";
import { beatOffMs } from "./beat.js";
import { clockOffset } from "./clock.js";

/** @typedef {any} Worker as GET /workers says */

/** @param {Worker} worker */
export function slots({ slots: all, beat }) {
  if (!all) return null;
  if (!beat) return t("workers.used", { used: "?", all });
  const used = all - beat.freeSlots;
  const more = [beat.waiting && t("workers.waiting", { n: beat.waiting }), beat.unsentRecords && t("workers.unsent", { n: beat.unsentRecords })].filter(Boolean);
  return [
    h("meter", { min: 0, max: all, value: used, "aria-label": t("workers.slots") }), " ", t("workers.used", { used, all }),
    more.length > 0 && h("div", { class: "sub" }, more.join(", ")),
  ];
}

/** @param {Worker} worker */
export function clock(worker) {
  if (!worker.beat) return null;
  const off = worker.clockOffsetMs === null ? beatOffMs(worker.beat, now()) : 0;
  return off ? h("span", { class: "tone-warn" }, t("workers.beat", { time: duration(off) })) : clockOffset(worker);
}
