/** Every field of a job in words, those that were chosen first. */
import { h } from "../dom.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { nameOf, partsOf, valueOf } from "./values.js";

/** What stands above on the page already. */
const ABOVE = ["name", "command", "enabled"];
/** Without a value these say nothing. */
const IF_GIVEN = ["cronExpr", "every", "offset", "after", "at", "startAt", "endAt", "calendar"];

/** @param {HTMLElement} box a dl @param {any} job, or a version of one @param {string[]} above fields that are left out */
export function showDefinition(box, { spec, savedMs, savedBy, revision }, above = ABOVE) {
  const rows = Object.entries(spec).filter(([field]) => !above.includes(field)).flatMap(([field, value]) => partsOf(field, value))
    .filter(([field, value]) => value !== null || !IF_GIVEN.includes(field));
  redraw(box,
    rows.flatMap(([field, value]) => [h("dt", {}, nameOf(field)), h("dd", {}, valueOf(field, value))]),
    h("dt", {}, t("job.saved")), h("dd", {}, stamp(savedMs), ` ${savedBy ?? ""}, `, t("job.revision", { revision: String(revision) })));
}
