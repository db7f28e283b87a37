/** The jobs of a crowded hour, and spreading them: seen first, job by job, then saved in one step. */
import { get, send } from "../api.js";
import { byId, fill, h, hold, icon, isHeld } from "../dom.js";
import { duration } from "../durations.js";
import { jobUrl } from "../links.js";
import { announce, said } from "../notices.js";
import { stamp } from "../stamp.js";
import { number, t } from "../text.js";
import { sayDone } from "../undo.js";
import { wrote } from "../written.js";
import { zoneFor } from "../zones.js";
import { whenOf } from "./pressure.js";

const MOST = 100;

/** What is shown; a later one takes its place. */
let shown = 0;
/** What had the focus before. */
let opener = /** @type {HTMLElement | null} */ (null);

/** @param {number} from @param {number} to @param {Record<string, string>} query @param {() => void} saved */
export async function showCrowd(from, to, query, saved) {
  const mine = ++shown, place = byId("crowd");
  opener = /** @type {HTMLElement | null} */ (document.activeElement);
  place.hidden = false;
  fill(place, h("p", { class: "muted" }, t("timeline.looking")));
  try {
    const found = await get("/forecast/jobs", { query: { q: query.q, from, to: Math.min(to, from + 3_600_000), limit: MOST } });
    if (mine === shown) list(place, found, { from, query, saved });
  } catch (error) {
    if (mine === shown) fill(place, said(error.message, "bad"));
  }
}

/** @param {HTMLElement} place @param {any} found @param {{from: number, query: Record<string, string>, saved: () => void}} of */
function list(place, found, of) {
  const title = `${whenOf(of.from)}: ${t("timeline.fires", { n: found.fires })}, ${t("timeline.total.job", { n: found.total })}`;
  const may = found.items.filter((/** @type {any} */ one) => one.maySpread);
  const boxes = new Map(may.map((/** @type {any} */ one) => [one.name, h("input", { type: "checkbox", checked: true, "aria-label": t("timeline.pick", { name: one.name }) })]));
  const by = h("select", { class: "form-control", id: "spread-by" }, h("option", { value: "minute" }, t("spread.minute")),
    [5, 15, 30, 60].map((minutes) => h("option", { value: String(minutes * 60) }, t("spread.jitter", { n: minutes }))));
  const problem = h("div", { role: "alert" });
  const look = h("button", { type: "submit", class: "btn btn-primary" }, icon("shuffle"), " ", t("spread.look"));
  const form = h("form", { class: "spread-form" }, h("label", { for: "spread-by" }, t("spread.how")), by, look);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const names = may.map((/** @type {any} */ one) => one.name).filter((/** @type {string} */ name) => boxes.get(name)?.checked);
    if (!names.length) return fill(problem, said(t("spread.none"), "warn"));
    if (isHeld(look)) return;
    const value = /** @type {HTMLSelectElement} */ (by).value;
    const wish = value === "minute" ? { by: "minute" } : { by: "jitter", jitterSeconds: Number(value) };
    hold(look, true);
    try {
      preview(place, await send("POST", "/forecast/spread", { body: { names, ...wish } }), wish, { ...of, back: () => list(place, found, of) });
    } catch (error) {
      fill(problem, said(error.message, "bad"));
    }
    hold(look, false);
  });
  const rows = found.items.map((/** @type {any} */ one) => h("tr", {}, h("td", {}, boxes.get(one.name)), h("td", {}, h("a", { class: "row-name", href: jobUrl(one.name) }, one.name)),
    h("td", {}, one.words, zoneOf(one)), h("td", { class: "num" }, number(one.fires)), h("td", { class: "num" }, one.usualMs ? duration(one.usualMs) : "–"), h("td", { class: "num" }, number(one.slots))));
  const columns = ["", t("column.name"), t("column.schedule"), t("timeline.column.fires"), t("timeline.column.usual"), t("timeline.column.slots")];
  fill(place, head(title, place), problem, may.length > 0 && form,
    found.total > found.items.length && h("p", { class: "sub" }, t("timeline.crowd.more", { n: found.total - found.items.length })),
    table(title, columns, rows, 3));
  place.querySelector("h2")?.focus();
}

/** @param {HTMLElement} place @param {any} told @param {any} wish @param {{saved: () => void, back: () => void}} of */
function preview(place, told, wish, of) {
  const changed = told.items.filter((/** @type {any} */ one) => one.changes && one.may), kept = told.items.filter((/** @type {any} */ one) => !one.changes);
  const save = h("button", { type: "button", class: "btn btn-primary" }, t("spread.save", { n: changed.length }));
  const back = h("button", { type: "button", class: "btn btn-plain", onclick: of.back }, t("spread.back"));
  const problem = h("div", { role: "alert" });
  save.addEventListener("click", async () => {
    if (isHeld(save)) return;
    hold(save, true);
    try {
      const revisions = Object.fromEntries(changed.map((/** @type {any} */ one) => [one.name, one.revision]));
      const { results } = await send("POST", "/jobs/bulk", { body: { action: "spread", names: Object.keys(revisions), revisions, ...wish } });
      ended(place, results, revisions, of.saved);
    } catch (error) {
      fill(problem, said(error.message, "bad"));
      hold(save, false);
    }
  });
  const schedule = (/** @type {any} */ shown, /** @type {any} */ one) => [h("code", {}, codeOf(shown)), h("div", { class: "sub" }, shown.words === shown.cronExpr ? null : shown.words, zoneOf(one))];
  const rows = changed.map((/** @type {any} */ one) => h("tr", {}, h("td", {}, h("a", { class: "row-name", href: jobUrl(one.name) }, one.name)), h("td", {}, schedule(one.before, one)), h("td", {}, schedule(one.after, one)),
    h("td", {}, one.after.next && stamp(one.after.next.ms))));
  fill(place, head(t("spread.title", { n: changed.length }), place), problem,
    h("p", {}, t("spread.peak", { before: told.before.mostFires, after: told.after.mostFires, was: told.before.slots, would: told.after.slots })),
    kept.length > 0 && h("p", { class: "sub" }, t("spread.kept", { n: kept.length }), " ", kept.slice(0, 10).map((/** @type {any} */ one) => one.name).join(", ")),
    h("div", { class: "spread-form" }, changed.length > 0 && save, back),
    changed.length > 0 && table(t("spread.title", { n: changed.length }), [t("column.name"), t("spread.before"), t("spread.after"), t("column.next")], rows));
  (changed.length ? save : back).focus();
}

/** @param {HTMLElement} place @param {{name: string, ok: boolean, changed?: boolean, message: string}[]} results @param {Record<string, number>} revisions @param {() => void} saved */
function ended(place, results, revisions, saved) {
  const failed = results.filter((one) => !one.ok), done = results.length - failed.length;
  results.filter((one) => one.ok).forEach(({ name }) => wrote(name, revisions[name] + 1));
  if (done) sayDone("spread", results.filter((one) => one.ok && one.changed).map(({ name }) => name), t("spread.done", { n: done }), revisions);
  announce(t("spread.done", { n: done }));
  if (failed.length) fill(place, head(t("spread.failed", { n: failed.length }), place), failed.map((one) => said(`${one.name}: ${one.message}`, "bad")));
  else close(place);
  saved();
}

/** A schedule is in the zone of its job, where the reader sees times in another. @param {{timezone: string}} one */
const zoneOf = ({ timezone }) => timezone !== zoneFor() && h("span", { class: "zone" }, " ", timezone);

/** @param {any} schedule */
function codeOf({ cronExpr, every, offset, jitterSeconds }) {
  const when = every ? `every ${every}${offset ? ` + ${offset}` : ""}` : [cronExpr].flat().join(" | ");
  return jitterSeconds ? `${when} ~${duration(jitterSeconds * 1000)}` : when;
}

/** @param {string} title @param {HTMLElement} place */
const head = (title, place) => h("div", { class: "section-head" }, h("h2", { tabindex: -1 }, title),
  h("button", { type: "button", class: "btn btn-quiet btn-icon end", "aria-label": t("close"), onclick: () => close(place) }, icon("x-lg")));

/** @param {HTMLElement} place */
function close(place) {
  shown += 1;
  place.hidden = true;
  fill(place);
  opener?.focus(); // else whoever closes it by a key is nowhere
}

/** @param {string} title @param {string[]} columns @param {HTMLElement[]} rows @param {number} [numbers] so many of the last columns */
const table = (title, columns, rows, numbers = 0) => h("div", { class: "scroll-x chart-table", role: "group", tabindex: 0, "aria-label": title },
  h("table", { class: "grid auto" }, h("caption", { class: "visually-hidden" }, title), h("thead", {}, h("tr", {}, columns.map((text, at) => (text ? h("th", { scope: "col", class: at >= columns.length - numbers ? "num" : null }, text) : h("td"))))), h("tbody", {}, rows)));
