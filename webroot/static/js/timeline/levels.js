/** How strong the colour of an hour is: by the slots that it wants at once, which jobs that fire all the time do not level. */

export const LEVELS = 5;
/** The one level of hours that are nearly alike. */
const ALIKE = 2;

/** @typedef {import("../waiting.js").Span} Hour */

/**
 * Where all hours want about as many slots, by their fires. 0: an hour without any.
 * @param {Hour[]} hours
 * @returns {{by: "slots" | "fires", least: number, most: number, level: (hour: Hour) => number}}
 */
export function heatScale(hours) {
  const busy = hours.filter(({ fires }) => fires);
  const bySlots = spanOf(busy.map(({ slots }) => slots));
  const by = bySlots.most - bySlots.least >= Math.max(1, bySlots.most / 10) ? "slots" : "fires";
  const { least, most } = by === "slots" ? bySlots : spanOf(busy.map(({ fires }) => fires));
  const isAlike = most - least < (by === "slots" ? most / 10 : Math.max(2, most / 50));
  return { by, least, most, level: (hour) => (hour.fires ? (isAlike ? ALIKE : Math.round(1 + ((LEVELS - 1) * (hour[by] - least)) / (most - least))) : 0) };
}

/** @param {number[]} values */
const spanOf = (values) => ({ least: Math.min(...values, Infinity), most: Math.max(...values, -Infinity) });
