/** How late fires start, as the forecast expects it, for want of a slot: in words, and how much that matters. */
import { whole } from "./durations.js";
import { t } from "./text.js";

const SECOND = 1000;
/** Later, a fire is late. Its start deadline is no measure: what waits for a slot starts after that as well. */
export const LATE_MS = 10 * SECOND;

/** A span of the forecast: a minute, an hour. @typedef {{time: number, fires: number, slots: number, waitMs?: number | null}} Span */

/** Null: none waits for as much as a second, or no worker takes fires. @param {number | null | undefined} ms @returns {"warn" | "bad" | null} */
export const toneOfWait = (ms) => ((ms ?? 0) > LATE_MS ? "bad" : (ms ?? 0) > SECOND ? "warn" : null);

/** "With 32 slots the last starts about 40 s late." @param {number | null | undefined} ms @param {number} slots that there are */
export function waitWords(ms, slots) {
  if (!slots) return t("forecast.nobody");
  return toneOfWait(ms) ? t("forecast.wait", { n: slots, time: whole(Math.round((ms ?? 0) / SECOND) * SECOND) }) : t("forecast.enough", { n: slots });
}

/** What is to be mended first: the longest wait, then most slots at once, then most fires. @template {Span} T @param {T[]} spans @returns {T | null} null: nothing fires */
export function fullestOf(spans) {
  const more = (/** @type {Span} */ one, /** @type {Span} */ other) => (one.waitMs ?? 0) - (other.waitMs ?? 0) || one.slots - other.slots || one.fires - other.fires;
  return spans.filter(({ fires }) => fires > 0).reduce((/** @type {T | null} */ most, one) => (most && more(one, most) <= 0 ? most : one), null);
}
