/** What the page of runs asks for, as its address says it. */
import { now } from "../clock.js";
import { instant } from "../moments.js";

const PERIODS = { "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 };
/** By these the list is narrowed; each may stand in the address. */
const NAMES = ["q", "job", "status", "worker", "label", "trigger", "error", "period", "from", "to"];

/** @typedef {Record<string, string>} Query by name, what is not asked for as "" */

/** @returns {Query} */
export function query() {
  const search = new URLSearchParams(window.location.search);
  return Object.fromEntries([...NAMES, "group"].map((name) => [name, search.getAll(name).join(",")]));
}

/** @param {Query} wanted */
export function keepQuery(wanted) {
  const search = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
  window.history.replaceState(null, "", search.size ? `/runs?${search}` : "/runs");
}

/** Whether it is narrowed down. @param {Query} wanted */
export const isNarrow = (wanted) => NAMES.some((name) => wanted[name]);

/** As the call takes it: a period ends now. @param {Query} wanted @returns {Record<string, string | string[]>} */
export function asked({ period, from, to, label, group: _, ...others }) {
  const labels = { label: label.split(",").map((one) => one.trim()).filter(Boolean) };
  const sinceMs = PERIODS[period];
  if (sinceMs) return { ...others, ...labels, from: String(Math.round(now() - sinceMs)) };
  return { ...others, ...labels, from: instant(from), to: instant(to) };
}
