/** A new job, or a change to one. */
import { jobPath, send } from "../api.js";
import { lacks, mayAnything } from "../caller.js";
import { byId, delegate, hold, isHeld } from "../dom.js";
import { jobUrl } from "../links.js";
import { note } from "../notices.js";
import { Refresher } from "../refresher.js";
import { DEFAULTS, TIMING } from "../schema.js";
import { t, word } from "../text.js";
import { getJob, wrote } from "../written.js";
import { turnCommand } from "./command.js";
import { showConflict } from "./conflict.js";
import { drawForm } from "./draw.js";
import { countMarked, showErrors } from "./errors.js";
import { fillInputs, ownErrors, readInputs, showForTrigger } from "./inputs.js";
import { Preview } from "./preview.js";
import { drawSections, startUnfolding } from "./sections.js";
import { fieldsOf, same, specOf } from "./spec.js";

const CHECK_MS = 600;
/** How soon it looks whether what kept the job from being read has passed. */
const AGAIN_MS = 5000;

/** What is being edited: what it was when it was read, and the revision of that; `begun`: what is in the form and saved. */
const edit = { name: "", etag: "", base: /** @type {Record<string, any>} */ (DEFAULTS), spec: {}, begun: {}, saved: false };
/** Whether the note above the form counts the fields that kept it from being saved: it goes with them. */
let counts = false;
/** Fields that the user has touched: nobody is told off for what he has not come to yet. @type {Set<string>} */
const touched = new Set();

/** @param {string} target the job's name, or "" for a new one */
export async function start(target) {
  const form = byId("job-form");
  drawForm();
  const preview = new Preview(byId("preview"), readInputs, (errors) => judge(errors, (field) => TIMING.includes(field)));
  if (!(await begin(target))) return;
  form.setAttribute("aria-busy", "false");
  showRights();
  const check = new Refresher(checkAll, CHECK_MS);
  form.addEventListener("input", ({ target: changed }) => {
    const { field, kind } = changed.closest("[data-field]")?.dataset ?? {};
    if (changed.name === "given") turnCommand(changed.closest("[data-field]"));
    if (changed.name === "trigger" || kind === "calendar") showForTrigger();
    if (field) touched.add(field);
    if (changed.name === "trigger") preview.now();
    else if ([...TIMING, "name"].includes(field)) preview.soon();
    drawSections(readInputs());
    check.soon();
  });
  delegate(form, "click", "[data-example]", ({ dataset }) => type(`f-${dataset.for}`, dataset.example));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isHeld(byId("save"))) return;
    const mine = readInputs();
    if (edit.saved && same(mine, edit.begun)) window.location.assign(jobUrl(edit.name)); // clicked twice, or back again
    else void save(mine.name === edit.name ? edit.etag : "");
  });
  startUnfolding(byId("unfold"));
  window.addEventListener("beforeunload", (event) => !same(readInputs(), edit.begun) && event.preventDefault());
  preview.now();
  (edit.name ? byId("f-command") : byId("f-name")).focus();
}

/** Who may not save it can read it, and is told why there is nothing to press. */
function showRights() {
  const role = edit.name ? lacks("edit", edit.spec.labels ?? {}) : mayAnything("editor") ? null : "editor";
  if (!role) return;
  note(byId("problem"), t("may.not", { role: word("role", role) }), "info");
  /** @type {HTMLButtonElement} */ (byId("save")).disabled = true;
}

/** As if somebody had typed it. @param {string} id @param {string} text */
function type(id, text) {
  const input = /** @type {HTMLInputElement} */ (byId(id));
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  input.focus();
}

/** @param {string} target @returns {Promise<boolean>} whether there is something to edit */
async function begin(target) {
  const copied = new URLSearchParams(window.location.search).get("from");
  try {
    if (target || copied) {
      const job = await getJob(target || copied);
      edit.spec = job.spec ?? {};
      edit.base = fieldsOf(edit.spec);
      if (target) Object.assign(edit, { name: target, etag: job.etag, base: { ...edit.base, name: target } });
      else edit.base = { ...edit.base, name: "" };
      if (job.problem) note(byId("warnings"), job.problem, "warn");
    }
  } catch (error) {
    note(byId("problem"), error.message);
    byId("job-form").hidden = true; // there is nothing to edit
    byId("job-form").setAttribute("aria-busy", "false");
    if (!error.mayPass) return false;
    await new Promise((resolve) => window.setTimeout(resolve, AGAIN_MS));
    if (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    return begin(target);
  }
  byId("job-form").hidden = false;
  note(byId("problem"), null);
  show(edit.base);
  edit.begun = readInputs();
  if (target) {
    /** @type {HTMLInputElement} */ (byId("f-name")).readOnly = true;
    byId("h-name").remove(); // how it may be written
  }
  return true;
}

/** @param {Record<string, any>} fields */
function show(fields) {
  fillInputs(fields);
  drawSections(readInputs());
}

/** Each error at its field, and the note above says how many are left. @param {import("./errors.js").FieldError[]} errors @param {(field: string) => boolean} only */
function judge(errors, only) {
  showErrors(errors, { only });
  if (counts) showCount();
}

function showCount() {
  const left = countMarked();
  counts = left > 0;
  note(byId("problem"), left ? t("form.mend", { n: left }) : null);
}

/** What a save would say, while one types. @param {AbortSignal} signal */
async function checkAll(signal) {
  try {
    const { errors, warnings } = await checked(readInputs(), signal);
    judge([...ownErrors(), ...errors], (field) => touched.has(field) && !TIMING.includes(field));
    note(byId("warnings"), warnings.filter((/** @type {string} */ one) => !byId("preview").textContent.includes(one)).join("; ") || null, "warn");
  } catch (error) {
    if (signal.aborted) throw error;
  }
}

/** What a save would say. @param {Record<string, any>} fields @param {AbortSignal} [signal] */
async function checked(fields, signal) {
  const { errors, warnings } = await send("POST", "/jobs/check", { body: specOf(fields, edit.spec), signal });
  const needed = { field: "name", message: t("form.name.needed"), remedy: "" };
  return { errors: errors.map((/** @type {any} */ one) => (one.field === "name" && !fields.name ? needed : one)), warnings };
}

/** @param {string} etag the revision that is to be replaced; "" for a job that must not exist */
async function save(etag) {
  const mine = readInputs();
  if (ownErrors().length) return refused({ errors: ownErrors() }, mine);
  hold(byId("save"), true);
  try {
    if (/^\.{0,2}$/.test(mine.name)) return refused(await checked(mine), mine); // it fits into no path
    const headers = etag ? { "If-Match": etag } : { "If-None-Match": "*" };
    const { job } = await send("PUT", jobPath(mine.name), { body: specOf(mine, edit.spec), headers: /** @type {any} */ (headers) });
    wrote(mine.name, job?.revision);
    Object.assign(edit, { name: mine.name, etag: job?.etag ?? edit.etag, base: mine, begun: mine, saved: true }); // not what was typed since
    window.location.assign(jobUrl(mine.name));
  } catch (error) {
    refused(error, mine);
  } finally {
    hold(byId("save"), false);
  }
}

/** @param {any} error @param {Record<string, any>} mine */
function refused(error, mine) {
  if (error.status === 412 && mine.name === edit.name) {
    const current = error.body?.current;
    return showConflict(byId("conflict"), { base: edit.base, spec: edit.spec, mine, current }, {
      take: (theirs) => {
        const fields = { ...readInputs(), ...theirs }; // with what was typed since
        byId("conflict").replaceChildren();
        Object.assign(edit, { base: fieldsOf(current.spec), spec: current.spec, etag: current.etag });
        show(fields);
        byId("f-timezone").dispatchEvent(new Event("input", { bubbles: true })); // look at all of it again
        byId("save").focus();
      },
      overwrite: () => {
        byId("conflict").replaceChildren();
        void save(current?.etag ?? "");
      },
    });
  }
  const exists = { field: "name", message: t("form.exists"), remedy: t("form.exists.remedy") };
  const errors = error.status === 412 ? [exists] : (error.errors ?? []);
  const rest = showErrors(errors, { focus: true });
  counts = errors.length > 0 && !rest.length;
  if (counts) showCount();
  else note(byId("problem"), rest.length ? rest.join("; ") : error.message);
  if (rest.length === errors.length) byId("problem").scrollIntoView({ block: "center" }); // it is said nowhere else
}
