/** "Run now": one click and a confirmation; arguments, environment, a later time and a key against doing it twice if wanted. */
import { ApiError, jobPath, send } from "../api.js";
import { mayAnything } from "../caller.js";
import { askFor } from "../dialogs.js";
import { fill, h, icon } from "../dom.js";
import { runUrl } from "../links.js";
import { announce, note, toast } from "../notices.js";
import { onlyOnce, saidOnce } from "../once.js";
import { faultOf } from "../said.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { MINE } from "../zones.js";

const FIELDS = ["args", "env", "at", "dedupeKey", "dedupeSeconds", "reason"];

/** @param {string} name @returns {Promise<boolean>} whether a run was asked for */
export function runNow(name) {
  const problem = h("div", { role: "alert" });
  const inputs = makeInputs(), once = onlyOnce();
  const options = h("details", { class: "options-of" }, h("summary", {}, t("run.now.options")), h("div", { class: "fields-of" }, FIELDS.filter(isOffered).map((field) => labelled(field, inputs[field]))));
  return askFor({
    title: `${t("action.run")}: ${name}`,
    action: t("action.run"),
    body: [h("p", {}, t("ask.run", { name })), problem, options],
    send: async () => {
      note(problem, null);
      const { body, faults } = read(inputs);
      if (faults.length) return complain(faults, options, problem, t("run.now.mend"));
      try {
        const answer = await send("POST", `${jobPath(name)}/run`, { body, headers: once(body) });
        if (problem.isConnected) return told(answer);
        toast(said(answer)); // the dialog was closed meanwhile
        return [];
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (!problem.isConnected) toast(`${t("action.run")}: ${error.message}`, "bad");
        return complain(error.errors, options, problem, saidOnce(error));
      }
    },
  });
}

/** Arguments and variables choose code, as an edit does. @param {string} field */
const isOffered = (field) => !["args", "env"].includes(field) || mayAnything("editor");

/** @returns {Record<string, any>} */
function makeInputs() {
  const field = (/** @type {string} */ tag, /** @type {string} */ name, more = {}) =>
    h(tag, { class: "form-control", id: `run-${name}`, "data-run-field": name, autocomplete: "off", "aria-describedby": `run-${name}-hint run-${name}-error`, ...more });
  const mono = { class: "form-control mono", rows: 2, spellcheck: "false" };
  return {
    args: field("textarea", "args", mono),
    env: field("textarea", "env", mono),
    at: field("input", "at", { type: "datetime-local", step: 1 }),
    dedupeKey: field("input", "dedupeKey", { type: "text", maxlength: 200 }),
    dedupeSeconds: field("input", "dedupeSeconds", { type: "number", min: 1, placeholder: "300" }),
    reason: field("input", "reason", { type: "text", maxlength: 300 }),
  };
}

/** @param {string} field @param {HTMLElement} input */
function labelled(field, input) {
  return h("div", { class: "field" },
    h("label", { class: "form-label", for: `run-${field}` }, field === "reason" ? t("reason") : t(`run.now.${field}`)), input,
    h("div", { class: "form-text", id: `run-${field}-hint` }, field === "reason" ? null : t(`run.now.${field}.hint`, { zone: MINE })),
    h("div", { class: "errors", id: `run-${field}-error` }));
}

/** @param {Record<string, any>} inputs */
function read({ args, env, at, dedupeKey, dedupeSeconds, reason }) {
  /** @type {Record<string, any>} */
  const body = {};
  const faults = [];
  const lines = args.value.replace(/\n+$/, "");
  if (lines) body.args = lines.split("\n");
  for (const line of env.value.split("\n").filter((/** @type {string} */ one) => one.trim())) {
    const at = line.indexOf("=");
    if (at < 1) faults.push({ field: "env", message: line, remedy: t("run.now.env.hint") });
    else (body.env ??= {})[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  const atMs = Date.parse(at.value); // a field takes years that no date has
  if (Number.isFinite(atMs)) body.at = new Date(atMs).toISOString();
  else if (at.value || at.validity.badInput) faults.push({ field: "at", message: t("run.now.at.bad"), remedy: "" });
  if (dedupeKey.value.trim()) body.dedupeKey = dedupeKey.value.trim();
  if (dedupeSeconds.value) body.dedupeSeconds = Number(dedupeSeconds.value);
  if (reason.value.trim()) body.reason = reason.value.trim();
  return { body, faults };
}

/** Each fault at its field. @param {any[]} faults @param {HTMLElement} options @param {HTMLElement} problem @param {string} text @returns {null} */
function complain(faults, options, problem, text) {
  for (const field of FIELDS) {
    const own = faults.filter((one) => one.field === field || one.field.startsWith(`${field}.`) || one.field.startsWith(`${field}[`));
    const input = options.querySelector(`[data-run-field=${field}]`);
    fill(options.querySelector(`#run-${field}-error`), own.map((one) => h("div", { class: "invalid-feedback" }, faultOf(one))));
    input.classList.toggle("is-invalid", own.length > 0);
    input.setAttribute("aria-invalid", String(own.length > 0));
  }
  note(problem, text);
  if (faults.length) {
    options.setAttribute("open", "");
    options.querySelector("[aria-invalid=true]")?.focus();
  }
  return null;
}

/** @param {any} answer of POST /jobs/{name}/run */
const said = ({ deduplicated }) => t(deduplicated ? "run.now.known" : "run.now.asked");

/** @param {any} answer of POST /jobs/{name}/run */
function told(answer) {
  const { runId, runIds, deduplicated, planTime, createTime } = answer;
  const text = said(answer);
  announce(text);
  const ids = /** @type {string[]} */ (runIds ?? [runId]);
  const later = !deduplicated && planTime > createTime + 1000;
  return [
    h("p", {}, icon(deduplicated ? "info-circle" : "check-circle-fill"), " ", text),
    later && h("p", {}, t("run.now.later"), " ", stamp(planTime, { as: "long" }), ", ", stamp(planTime, { as: "until" })),
    h("ul", { class: "named" }, ids.map((id) => h("li", {}, h("a", { href: runUrl(id) }, label(id, ids.length))))),
  ];
}

/** @param {string} id @param {number} among */
function label(id, among) {
  const worker = /~([^@]*)@/.exec(id)?.[1];
  return among > 1 && worker ? t("run.now.open.on", { worker }) : t("run.now.open");
}
