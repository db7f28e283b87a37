/** What may this person do, and who may touch this job? With the binding that is the reason. */
import { get } from "../api.js";
import { byId, fill, h, icon } from "../dom.js";
import { spelled } from "../labels.js";
import { announce } from "../notices.js";
import { listed, t, word } from "../text.js";
import { COLUMNS } from "./bindings.js";
import { table } from "../tables.js";

/** What was asked last: an answer to what was asked before is not shown, however late it comes. */
let asking = new AbortController();

export function startExplain() {
  for (const kind of ["subject", "job"]) {
    byId(`explain-${kind}`).addEventListener("submit", (event) => {
      event.preventDefault();
      void explain(kind);
    });
  }
}

/** @param {string} kind */
async function explain(kind) {
  const wanted = /** @type {HTMLInputElement} */ (byId(`explain-${kind}-of`)).value.trim();
  if (!wanted) return;
  const box = byId("explained");
  box.setAttribute("aria-busy", "true");
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  try {
    const found = await get("/access/explain", { query: { [kind]: kind === "subject" && !wanted.includes(":") ? `user:${wanted}` : wanted }, signal });
    if (signal.aborted) return;
    fill(box, ...(kind === "subject" ? ofSubject(found) : ofJob(found)));
    announce(box.textContent ?? "");
  } catch (error) {
    if (signal.aborted) return;
    fill(box, warning(error.message, "bad"));
    announce(error.message);
  }
  box.setAttribute("aria-busy", "false");
}

/** @param {any} found */
function ofSubject({ subject, roles, administers, bindings, subjects, tokens, warnings }) {
  const most = administers ? t("access.explain.everything") : roles.length ? t("access.explain.roles", { roles: listed(roles.map((/** @type {string} */ one) => word("role", one))) }) : t("account.nothing");
  return [
    h("h3", {}, subject), warnings.map((/** @type {string} */ text) => warning(text)), h("p", {}, most),
    h("p", { class: "muted" }, t("access.explain.counts", { subjects: subjects.join(", ") }), " ", t("access.explain.tokens", { n: tokens })),
    bindings.length > 0 && table("access.bindings", COLUMNS, bindings, ({ id }) => id),
  ].flat();
}

/** @param {any} found */
function ofJob({ job, labels, who, warnings }) {
  const chips = Object.entries(labels).map(([name, value]) => h("span", { class: "label" }, `${name}=${value}`));
  return [
    h("h3", {}, job, " ", chips), warnings.map((/** @type {string} */ text) => warning(text)),
    who.length ? table("access.explain.who", [
      { key: "subject", draw: (/** @type {any} */ one) => [h("strong", {}, one.subject), one.subject !== `user:${one.users[0]}` && h("div", { class: "sub" }, one.users.join(", "))], className: "wraps" },
      { key: "may", draw: (/** @type {any} */ one) => [allowed(one.may), one.why && h("div", { class: "sub" }, one.why)], className: "wraps" },
      { key: "labels", draw: (/** @type {any} */ one) => [`${word("role", one.role)}: ${spelled(one.labels)}`], className: "wraps" },
    ], who, ({ id }) => id) : h("p", {}, t("access.explain.nobody")),
  ].flat();
}

/** @param {Record<string, boolean>} may */
const allowed = (may) => listed(Object.entries(may).filter(([, is]) => is).map(([what]) => t(`access.may.${what}`)));

/** @param {string} text @param {"warn" | "bad"} [tone] */
const warning = (text, tone = "warn") => h("p", { class: `note note-${tone}` }, icon("exclamation-triangle-fill"), h("span", {}, text));
