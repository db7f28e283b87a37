/** What one can do to many jobs at once; the dialog says how far it is, and then what has failed. */
import { ApiError } from "./api.js";
import { askFor } from "./dialogs.js";
import { h } from "./dom.js";
import { onMany } from "./many.js";
import { announce, note, toast } from "./notices.js";
import { onlyOnce, saidOnce } from "./once.js";
import { faultOf } from "./said.js";
import { stamp } from "./stamp.js";
import { number, t } from "./text.js";
import { sayDone } from "./undo.js";
import { badge } from "./verdicts.js";
import { wroteAll } from "./written.js";

/** @typedef {"pause" | "resume" | "kill" | "delete"} Action */
/** @typedef {Action | "run" | "label"} ManyAction */
/** @type {Record<ManyAction, {tone: "danger" | "primary", reason: boolean}>} */
export const KINDS = {
  pause: { tone: "primary", reason: true },
  resume: { tone: "primary", reason: false },
  kill: { tone: "danger", reason: true },
  delete: { tone: "danger", reason: false },
  run: { tone: "primary", reason: true },
  label: { tone: "primary", reason: false },
};

/**
 * Asks, then acts on all of them, some at a time: how far it is stands in the dialog, which then names what has failed. Who closes
 * it meanwhile stops it.
 * @param {ManyAction} action
 * @param {{name: string, running: any[] | null, revision: number, state: string}[]} jobs `running`: null where it is not known
 */
export async function actOnAll(action, jobs) {
  const names = jobs.map((job) => job.name);
  const { tone, reason } = KINDS[action];
  const going = jobs.flatMap(({ name, running }) => (running ?? []).map((run) => ({ ...run, jobName: name })));
  const unknown = jobs.filter(({ running }) => running === null).length;
  const why = reason ? textField("reason", t("reason"), { maxlength: 300 }) : null;
  const labels = action === "label" ? labelFields() : null;
  const problem = h("div", { role: "alert" }), progress = h("p", { class: "muted", role: "status" });
  const body = [h("p", {}, t(`ask.${action}.many`, { n: names.length })), listed(names), ...runsNamed(action, going, unknown), ...(labels?.nodes ?? why?.nodes ?? []), problem, progress];
  const title = t(`action.${action}`), once = onlyOnce();
  /** @type {import("./many.js").Came | null} */
  let came = null;
  const done = await askFor({
    title, body, action: title, tone, focus: labels?.focus ?? why?.input,
    send: async () => {
      note(problem, null);
      try {
        came = await onMany(names, { action, reason: why?.input.value.trim() ?? "", ...labels?.read() }, once, (n) => {
          progress.textContent = t("bulk.progress", { done: number(n), n: names.length });
          return progress.isConnected;
        });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const faults = error.errors.map(faultOf).join("; ");
        if (problem.isConnected) note(problem, faults || saidOnce(error));
        else toast(`${title}: ${faults || error.message}`, "bad");
        return null;
      }
      return notDone(action, came, names.length);
    },
  });
  if (!done || !came) return false;
  tellDone(action, jobs, came, names.length);
  return true;
}

/** What was not done of it, each by name; nothing: all of it was. @param {ManyAction} action @param {import("./many.js").Came} came @param {number} asked */
function notDone(action, { results, error, doubt }, asked) {
  const failed = results.filter(({ ok }) => !ok), left = asked - results.length - doubt;
  if (!failed.length && !left && !doubt) return [];
  return [
    h("p", {}, t(`done.${action}.many`, { n: results.length - failed.length })),
    failed.length > 0 && h("p", { class: "tone-bad" }, h("strong", {}, t("bulk.failed", { n: failed.length }))),
    failed.length > 0 && h("ul", { class: "named failed-ones" }, failed.map(({ name, message }) => h("li", {}, h("strong", {}, name), t("colon"), message))),
    doubt > 0 && h("p", { class: "tone-bad" }, t("bulk.doubt", { n: doubt })),
    left > 0 && h("p", { class: "tone-bad" }, t("bulk.left", { n: left })),
    error && h("p", { class: "tone-bad" }, error),
  ];
}

/** @param {ManyAction} action @param {any[]} jobs @param {import("./many.js").Came} came @param {number} asked */
function tellDone(action, jobs, { results, doubt }, asked) {
  const of = new Map(results.map((one) => [one.name, one]));
  const done = jobs.filter(({ name }) => of.get(name)?.ok);
  wroteAll(done.flatMap((job) => writtenOf(action, job)));
  const text = t(`done.${action}.many`, { n: done.length });
  const changed = done.filter(({ name, state }) => state !== "broken" && of.get(name)?.changed);
  if (action === "pause" || action === "delete" || action === "label") sayDone(action, changed.map(({ name }) => name), text, action === "label" ? Object.fromEntries(changed.map(({ name, revision }) => [name, revision])) : {});
  else if (done.length) toast(text);
  const left = asked - results.length - doubt;
  if (doubt || left) announce([doubt && t("bulk.doubt", { n: doubt }), left && t("bulk.left", { n: left })].filter(Boolean).join(" "));
}

/** What many are at now is not told, but it is newer than what they were. @param {ManyAction} action @param {any} job */
function writtenOf(action, { name, revision, state }) {
  if (action === "delete") return [{ name, revision, gone: true }];
  return action === (state === "paused" ? "resume" : "pause") ? [{ name, revision: revision + 1, gone: false }] : [];
}

/** @param {string} id @param {string} label @param {Record<string, unknown>} [more] @returns {{nodes: HTMLElement[], input: HTMLInputElement}} */
function textField(id, label, more = {}) {
  const input = h("input", { class: "form-control", type: "text", id, autocomplete: "off", ...more });
  return { nodes: [h("label", { class: "form-label", for: id }, label), input], input: /** @type {HTMLInputElement} */ (input) };
}

/** Labels to be set, and names of labels to be taken away, with commas between. */
function labelFields() {
  const set = textField("labels-set", t("bulk.label.set"), { placeholder: "team=billing, tier=1" }), without = textField("labels-without", t("bulk.label.without"), { placeholder: "owner" });
  const words = (/** @type {HTMLInputElement} */ { value }) => value.split(",").map((one) => one.trim()).filter(Boolean);
  return {
    nodes: [...set.nodes, ...without.nodes], focus: set.input,
    read: () => ({
      labels: Object.fromEntries(words(set.input).map((one) => [one.split("=")[0].trim(), one.split("=").slice(1).join("=").trim()])),
      withoutLabels: words(without.input),
    }),
  };
}

/** What runs now, by name: nobody kills or deletes blindly. @param {ManyAction} action @param {any[]} running @param {number} [unknown] jobs of which that is not known */
export function runsNamed(action, running, unknown = 0) {
  if (action !== "kill" && action !== "delete") return [];
  const others = unknown > 0 ? [h("p", { class: "muted" }, t("ask.unknown.runs", { n: unknown }))] : [];
  if (!running.length) return unknown > 0 ? others : [h("p", { class: "muted" }, t("ask.nothing.runs"))];
  const rows = running.slice(0, 20).map((run) => h("li", {},
    badge(run.state), " ", run.jobName ? h("strong", {}, run.jobName, " ") : null,
    stamp(run.startTime ?? run.planTime, { as: "lasting" }), " ", t("ask.on", { worker: run.worker ?? "" })));
  const rest = running.length - rows.length;
  return [h("p", {}, t(`ask.${action}.runs`, { n: running.length })), h("ul", { class: "named" }, rows, rest > 0 && h("li", {}, t("ask.more", { n: rest }))), ...others];
}

/** @param {string[]} names */
function listed(names) {
  const rest = names.length - 10;
  return h("p", { class: "named" }, names.slice(0, 10).join(", "), rest > 0 && ` ${t("ask.more", { n: rest })}`);
}
