/** Spreading jobs: seen first, job by job and for the schedule as a whole, then saved in one step. */
import { ApiError } from "../api.js";
import { fill, h, hold, isHeld } from "../dom.js";
import { duration } from "../durations.js";
import { jobUrl } from "../links.js";
import { actOn } from "../many.js";
import { announce, said } from "../notices.js";
import { onlyOnce } from "../once.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { sayDone } from "../undo.js";
import { waitWords } from "../waiting.js";
import { wrote } from "../written.js";
import { close, head, table, zoneOf } from "./panel.js";
import { whenOf } from "./pressure.js";

/** As many the manager takes at once. */
const A_SAVE = 500;
/** Of a preview, and of what was not saved. */
const MOST_ROWS = 500, MOST_FAILED = 10;

/** @typedef {{wish: Record<string, unknown>, back: () => void, saved: () => void, tried: (act: () => Promise<void>) => Promise<void>}} Of */

/** What would become of the jobs, and of the minute for all jobs together. @param {HTMLElement} place @param {any} told as POST /forecast/spread says @param {Of} of */
export function preview(place, told, of) {
  const { slots, minute, before, after } = told;
  const changed = told.items.filter((/** @type {any} */ one) => one.changes && one.may), kept = told.items.filter((/** @type {any} */ one) => !one.changes);
  const problem = h("div", { role: "alert" });
  const button = h("button", { type: "button", class: "btn btn-primary" }, t("spread.save", { n: changed.length }));
  const back = h("button", { type: "button", class: "btn btn-plain", onclick: of.back }, t("spread.back"));
  const once = onlyOnce();
  button.addEventListener("click", async () => {
    if (isHeld(button)) return;
    hold(button, true);
    await of.tried(() => save(place, changed, of, once));
    hold(button, false);
  });
  const schedule = (/** @type {any} */ of, /** @type {any} */ one) => [h("code", {}, codeOf(of)), h("div", { class: "sub" }, of.words === of.cronExpr ? null : of.words, zoneOf(one))];
  const rows = changed.slice(0, MOST_ROWS).map((/** @type {any} */ one) => h("tr", {}, h("td", {}, h("a", { class: "row-name", href: jobUrl(one.name) }, one.name)), h("td", {}, schedule(one.before, one)), h("td", {}, schedule(one.after, one)),
    h("td", {}, one.after.next && stamp(one.after.next.ms))));
  const title = t("spread.title", { n: changed.length });
  fill(place, head(title, place), problem,
    h("p", {}, h("strong", {}, whenOf(minute.time), t("colon"), t("spread.peak", { was: minute.before.fires, fires: minute.after.fires, before: minute.before.slots, after: minute.after.slots, n: slots }))),
    h("p", {}, t("spread.wait.before"), " ", waitWords(minute.before.waitMs, slots), " ", t("spread.wait.after"), " ", waitWords(minute.after.waitMs, slots)),
    h("p", {}, t("spread.day", { was: whenOf(before.time), before: before.slots, would: whenOf(after.time), after: after.slots })),
    kept.length > 0 && h("p", { class: "sub" }, t("spread.kept", { n: kept.length }), " ", kept.slice(0, 10).map((/** @type {any} */ one) => one.name).join(", ")),
    h("div", { class: "spread-form" }, changed.length > 0 && button, back),
    changed.length > 0 && table(title, [t("column.name"), t("spread.before"), t("spread.after"), t("column.next")], rows),
    changed.length > MOST_ROWS && h("p", { class: "sub" }, t("timeline.crowd.more", { n: changed.length - MOST_ROWS })));
  (changed.length ? button : back).focus();
}

/** @param {HTMLElement} place @param {any[]} changed @param {Of} of @param {import("../once.js").Once} once */
async function save(place, changed, { wish, saved: hasSaved }, once) {
  const revisions = Object.fromEntries(changed.map(({ name, revision }) => [name, revision])), names = Object.keys(revisions);
  /** @type {{name: string, ok: boolean, changed?: boolean, message: string}[]} */
  const results = [];
  for (let at = 0; at < names.length; at += A_SAVE) {
    const some = names.slice(at, at + A_SAVE);
    try {
      const ofSome = { action: "spread", revisions: Object.fromEntries(some.map((name) => [name, revisions[name]])), ...wish };
      results.push(...(await actOn(some, ofSome, once)));
    } catch (error) {
      if (!at || !(error instanceof ApiError)) throw error;
      results.push(...names.slice(at).map((name) => ({ name, ok: false, message: error.message }))); // those before are saved
      break;
    }
  }
  const failed = results.filter((one) => !one.ok), saved = results.filter((one) => one.ok);
  saved.forEach(({ name }) => wrote(name, revisions[name] + 1));
  if (saved.length) sayDone("spread", saved.filter((one) => one.changed).map(({ name }) => name), t("spread.done", { n: saved.length }), revisions);
  announce(t("spread.done", { n: saved.length }));
  if (failed.length) {
    fill(place, head(t("spread.failed", { n: failed.length }), place), failed.slice(0, MOST_FAILED).map((one) => said(`${one.name}: ${one.message}`, "bad")),
      failed.length > MOST_FAILED && h("p", { class: "sub" }, t("timeline.crowd.more", { n: failed.length - MOST_FAILED })));
  } else close(place);
  hasSaved();
}

/** @param {any} schedule */
function codeOf({ cronExpr, every, offset, jitterSeconds }) {
  const when = every ? `every ${every}${offset ? ` + ${offset}` : ""}` : [cronExpr].flat().join(" | ");
  return jitterSeconds ? `${when} ~${duration(jitterSeconds * 1000)}` : when;
}
