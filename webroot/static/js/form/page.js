/** A new job, or a change to one. */
import { get, jobPath, send } from "../api.js";
import { byId } from "../dom.js";
import { note } from "../notices.js";
import { Refresher } from "../refresher.js";
import { t } from "../text.js";
import { $ } from "../vendor.js";
import { showConflict } from "./conflict.js";
import { fillInputs, readInputs, showErrors } from "./inputs.js";
import { addPair } from "./pairs.js";
import { fillZones, Preview } from "./preview.js";
import { DEFAULTS, fieldsOf, same, specOf } from "./spec.js";

const CHECK_MS = 600;
const OF_THE_PREVIEW = ["cronExpr", "timezone"];

/** What is being edited: what it was when it was read, and the revision of that. */
const edit = { name: "", etag: "", base: /** @type {Record<string, any>} */ (DEFAULTS), done: false };
/** Fields that the user has touched: nobody is told off for what he has not come to yet. @type {Set<string>} */
const touched = new Set();

/** @param {string} target the job's name, or "" for a new one */
export async function start(target) {
  const form = $("#job-form");
  fillZones(byId("zones"));
  const read = () => /** @type {any} */ (readInputs());
  const preview = new Preview(byId("preview"), read, (errors) => showErrors(errors, { only: (field) => OF_THE_PREVIEW.includes(field) }));
  if (!(await begin(target))) return;
  form.attr("aria-busy", "false");
  const check = new Refresher(checkAll, CHECK_MS);
  form.on("input change", (event) => {
    const field = event.target.dataset.field ?? event.target.closest("[data-pairs]")?.dataset.pairs;
    if (field) touched.add(field);
    if ([...OF_THE_PREVIEW, "name"].includes(field)) preview.soon();
    check.soon();
  });
  form.on("click", "[data-add]", (event) => addPair(document.querySelector(`[data-pairs=${event.currentTarget.dataset.add}]`)));
  form.on("click", "[data-example]", (event) => {
    $("#f-cronExpr").val(event.currentTarget.dataset.example).trigger("input").trigger("focus");
  });
  form.on("submit", (event) => {
    event.preventDefault();
    void save(edit.etag);
  });
  window.addEventListener("beforeunload", (event) => !edit.done && !same(readInputs(), edit.base) && event.preventDefault());
  preview.now();
  (edit.name ? byId("f-command") : byId("f-name")).focus();
}

/** @param {string} target @returns {Promise<boolean>} whether there is something to edit */
async function begin(target) {
  const copied = new URLSearchParams(window.location.search).get("from");
  try {
    if (target || copied) {
      const job = await get(jobPath(target || copied));
      edit.base = fieldsOf(job.spec ?? {});
      if (target) Object.assign(edit, { name: target, etag: job.etag, base: { ...edit.base, name: target } });
      else edit.base = { ...edit.base, name: "" };
      if (job.problem) note(byId("warnings"), job.problem, "warn");
    }
  } catch (error) {
    note(byId("problem"), error.message);
    return false;
  }
  fillInputs(edit.base);
  /** @type {HTMLInputElement} */ (byId("f-name")).readOnly = Boolean(target);
  return true;
}

/** What a save would say, while one types. @param {AbortSignal} signal */
async function checkAll(signal) {
  try {
    const { errors, warnings } = await send("POST", "/jobs/check", { body: specOf(readInputs()), signal });
    showErrors(errors, { only: (field) => touched.has(field) && !OF_THE_PREVIEW.includes(field) });
    note(byId("warnings"), warnings.filter((/** @type {string} */ one) => !byId("preview").textContent.includes(one)).join("; ") || null, "warn");
  } catch (error) {
    if (signal.aborted) throw error;
  }
}

/** @param {string} etag the revision that is to be replaced; "" for a job that must not exist */
async function save(etag) {
  const mine = readInputs();
  const button = /** @type {HTMLButtonElement} */ (byId("save"));
  button.disabled = true;
  try {
    const headers = etag ? { "If-Match": etag } : { "If-None-Match": "*" };
    await send("PUT", jobPath(mine.name || "-"), { body: specOf(mine), headers: /** @type {any} */ (headers) });
    edit.done = true;
    window.location.assign(`/jobs/${encodeURIComponent(mine.name)}`);
  } catch (error) {
    refused(error, mine);
  } finally {
    button.disabled = false;
  }
}

/** @param {any} error @param {Record<string, any>} mine */
function refused(error, mine) {
  if (error.status === 412 && edit.name) {
    const current = error.body?.current;
    return showConflict(byId("conflict"), { base: edit.base, mine, current }, {
      take: (fields) => {
        byId("conflict").replaceChildren();
        Object.assign(edit, { base: fieldsOf(current.spec), etag: current.etag });
        fillInputs(fields);
        $("#f-cronExpr").trigger("input");
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
  note(byId("problem"), rest.length ? rest.join("; ") : errors.length ? t("form.mend", { n: errors.length }) : error.message);
}
