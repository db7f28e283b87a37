/** A crontab that is pasted: what each of its lines becomes is seen first, then its jobs are saved in one step. */
import { ApiError, send } from "../api.js";
import { mayAnything } from "../caller.js";
import { byId, fill, h, hold, icon, isHeld } from "../dom.js";
import { selectorOf } from "../labels.js";
import { jobUrl } from "../links.js";
import { announce, note, said } from "../notices.js";
import { faultOf } from "../said.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { MINE } from "../zones.js";

/** @typedef {{line: number, text: string, became: string, problem?: string, errors?: import("../api.js").FieldError[], notes?: string[], name?: string, isThere?: boolean, words?: string, user?: string | null, next?: {ms: number} | null, spec?: {timezone?: string}}} Line */
/** @typedef {{name: string, ok: boolean, message: string}} Result */

/** The text whose jobs were saved: it may be left. */
let saved = "";

export async function start() {
  const form = /** @type {HTMLFormElement} */ (byId("crontab"));
  form.elements.timezone.value = MINE;
  form.append(h("datalist", { id: "zones" }, Intl.supportedValuesOf("timeZone").map((value) => h("option", { value }))));
  if (!mayAnything("editor")) {
    note(byId("problem"), t("may.not", { role: word("role", "editor") }), "info");
    /** @type {HTMLButtonElement} */ (byId("look")).disabled = true;
  }
  form.addEventListener("input", () => { byId("told").hidden = true; }); // it was of another text
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isHeld(byId("look"))) return;
    const body = bodyOf(form);
    const told = await asked(byId("look"), "/crontab/preview", body);
    if (told && JSON.stringify(body) === JSON.stringify(bodyOf(form))) preview(told, body); // else it is of another text
  });
  window.addEventListener("beforeunload", (event) => form.elements.text.value.trim() !== saved.trim() && event.preventDefault());
  form.elements.text.focus();
}

/** @param {HTMLFormElement} form */
function bodyOf({ elements }) {
  const { text, system, timezone, namePrefix, labels, workers, enabled } = elements;
  const named = Object.entries(selectorOf(labels.value)).map(([name, values]) => [name, [values].flat().join("|")]);
  return {
    text: text.value, system: system.checked, timezone: timezone.value.trim(), namePrefix: namePrefix.value.trim(),
    labels: Object.fromEntries(named), workers: selectorOf(workers.value), enabled: enabled.checked,
  };
}

/** The answer; null where there is none, and why is said. @param {HTMLElement} button @param {string} path @param {object} body @returns {Promise<any>} */
async function asked(button, path, body) {
  hold(button, true);
  try {
    const answer = await send("POST", path, { body });
    note(byId("problem"), null);
    return answer;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    fill(byId("problem"), (error.errors.length ? error.errors.map((one) => `${fieldOf(one.field)}${t("colon")}${faultOf(one)}`) : [error.message]).map((text) => said(text, "bad")));
    byId("problem").scrollIntoView({ block: "nearest" });
    return null;
  } finally {
    hold(button, false);
  }
}

/** @param {string} field */
const fieldOf = (field) => byId("crontab").querySelector(`label[for="${CSS.escape(field.split(/[.[]/)[0])}"]`)?.textContent ?? field;

/** @param {{items: Line[], new: number, refused: number, warnings: string[]}} told @param {{text: string, enabled: boolean}} body */
function preview(told, body) {
  const place = byId("told"), shown = told.items.filter(({ became }) => became !== "blank" && became !== "comment");
  const save = h("button", { type: "button", class: "btn btn-primary" }, t("crontab.save", { n: told.new }));
  save.addEventListener("click", async () => {
    if (isHeld(save)) return;
    const answer = await asked(save, "/crontab", body);
    if (!answer) return;
    if (answer.results.every((/** @type {Result} */ { ok }) => ok)) saved = body.text;
    ended(place, answer.results, body, shown.filter(({ became }) => became === "refused"));
  });
  const counts = [t("crontab.new", { n: told.new }), told.refused && t("crontab.refused", { n: told.refused }), t("crontab.lines", { n: told.items.length })];
  const alike = alikeIn(shown);
  place.hidden = false;
  fill(place, h("div", { class: "section-head" }, h("h2", { tabindex: -1 }, counts.filter(Boolean).join(t("list.between"))), told.new > 0 && h("span", { class: "end" }, save)),
    told.warnings.map((text) => said(text, "warn")),
    [...alike].map(([text, lines]) => said(t("crontab.alike", { n: lines.length, lines: lines.join(t("list.between")), note: text }), "info")),
    tableOf(shown.map((line) => ({ ...line, notes: line.notes?.filter((text) => !alike.has(text)) }))));
  place.querySelector("h2")?.focus();
}

/** The notes that stand at several lines, and at which. @param {Line[]} lines */
function alikeIn(lines) {
  /** @type {Map<string, number[]>} */
  const found = new Map();
  for (const { line, notes = [] } of lines) for (const text of new Set(notes)) found.set(text, [...(found.get(text) ?? []), line]);
  return new Map([...found].filter(([, at]) => at.length > 1));
}

/** @param {Line[]} lines */
const tableOf = (lines) => lines.length > 0 && h("table", { class: "grid crontab-lines" }, h("caption", { class: "visually-hidden" }, t("crontab.caption")),
  h("thead", {}, h("tr", {}, ["line", "text", "becomes"].map((key) => h("th", { scope: "col" }, t(`crontab.column.${key}`))))), h("tbody", {}, lines.map(row)));

/** @param {Line} line */
const row = (line) => h("tr", { class: line.became === "refused" ? "is-refused" : null }, h("td", { class: "num" }, line.line), h("td", {}, h("code", {}, line.text)), h("td", {}, becomes(line)));

/** @param {Line} line @returns {import("../dom.js").Child[]} */
function becomes({ became, problem, errors = [], notes = [], name = "", isThere, words, user, next, spec }) {
  const faults = [...(problem ? [problem] : []), ...errors.map(faultOf)];
  const told = notes.map((text) => h("div", { class: "sub" }, text));
  if (became === "refused") return [h("strong", { class: "tone-bad" }, icon("x-circle-fill"), " ", t("crontab.is.refused")), ...faults.map((text) => h("div", {}, text)), ...told];
  if (became !== "job") return told;
  const runs = [words, user ? t("crontab.as", { user }) : t("crontab.as.worker")].filter(Boolean).join(t("list.between"));
  return [h("strong", {}, isThere ? h("a", { href: jobUrl(name) }, name) : name), " ", isThere && h("span", { class: "tone-warn" }, t("crontab.there")),
    h("div", {}, runs), next && h("div", { class: "sub" }, t("crontab.next"), " ", stamp(next.ms, { zone: spec?.timezone })), ...told];
}

/** @param {HTMLElement} place @param {Result[]} results @param {{enabled?: boolean, text?: string}} body @param {Line[]} refused lines, which are still to be mended */
function ended(place, results, body, refused) {
  const done = results.filter(({ ok }) => ok), failed = results.filter(({ ok }) => !ok);
  const title = t(body.enabled ? "crontab.made" : "crontab.made.paused", { n: done.length });
  announce(title);
  place.hidden = false; // the user may be typing what comes next
  fill(place, h("div", { class: "section-head" }, h("h2", { tabindex: -1 }, title)),
    failed.map(({ name, message }) => said(`${name}${t("colon")}${message}`, "bad")),
    h("ul", {}, done.map(({ name }) => h("li", {}, h("a", { href: jobUrl(name) }, name)))),
    h("p", {}, h("a", { class: "btn btn-primary", href: body.enabled ? "/jobs" : "/jobs?state=paused" }, t("crontab.list"))),
    refused.length > 0 && [h("h3", {}, t("crontab.refused", { n: refused.length })), tableOf(refused)]);
  place.querySelector("h2")?.focus();
}
