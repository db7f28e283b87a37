/** How many slots of a worker were used over its day. */
import { rule, plot, stackedBars, timeAxis, valueAxis } from "../charts/svg.js";
import { stamp } from "../stamp.js";
import { number, t } from "../text.js";
import { parts, zoneFor } from "../zones.js";

/** @typedef {{ms: number, used: number}} Part */

/** @param {Part[]} slots the parts of a day @param {number} toMs its end @param {number | undefined} all how many the worker has @returns {import("../charts/table.js").Shown} */
export function slotsOf(slots, toMs, all) {
  const most = Math.max(all ?? 0, 1, ...slots.map(({ used }) => used));
  const used = (/** @type {Part} */ part) => number(part.used, 1);
  return {
    draw: (width) => {
      const chart = plot({ label: t("worker.slots"), width, height: 150, x: [slots[0].ms, toMs], y: [0, most * 1.1], left: 32 });
      timeAxis(chart, zoneFor());
      valueAxis(chart);
      stackedBars(chart, slots.map((part, at) => ({
        from: part.ms, to: slots[at + 1]?.ms ?? toMs, label: `${parts(part.ms, zoneFor()).time}: ${used(part)}`, values: { used: part.used } })), [["used", "run"]]);
      if (all) rule(chart, { y: all, text: t("worker.slots.all", { n: all }), tone: "idle" });
      return chart.svg;
    },
    columns: [t("column.when"), t("column.slots")],
    rows: () => slots.map((part) => [stamp(part.ms), used(part)]),
  };
}
