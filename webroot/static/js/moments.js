/** Fields for times: they are of the zone that the page shows, and say so. The address has instants. */
import { t } from "./text.js";
import { parts, zoneFor } from "./zones.js";

/** A time of the address (with its offset, in this browser's zone without, or ms since 1970); null: none. @param {string} text */
function dateOf(text) {
  const date = new Date(/^\d+$/.test(text) ? Number(text) : text);
  return text && !Number.isNaN(date.getTime()) ? date : null;
}

/** A time of the address as calls take it. @param {string} text */
export const instant = (text) => dateOf(text)?.toISOString() ?? "";

/** The instant that a field means. @param {string} value */
export const typed = (value) => instant(value && zoneFor() === "UTC" ? `${value}Z` : value);

/** A time of the address as a field takes it. @param {string} text */
function fieldTime(text) {
  const date = dateOf(text);
  if (!date) return "";
  const shown = parts(date.getTime(), zoneFor());
  return `${shown.date}T${shown.time.slice(0, 5)}`;
}

/** The fields `from` and `to`, each behind its words. @param {HTMLFormElement} form @param {Record<string, string>} wanted as the address has it */
export function showTimes(form, wanted) {
  for (const name of ["from", "to"]) {
    const field = form.elements[name];
    field.value = fieldTime(wanted[name]);
    field.previousElementSibling.textContent = t(`between.${name}`, { zone: zoneFor() });
  }
}
