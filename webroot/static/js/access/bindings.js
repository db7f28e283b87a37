/** Bindings: one user, group or service account has one role on the jobs with some labels. */
import { send } from "../api.js";
import { askFields, listed } from "../asking.js";
import { h } from "../dom.js";
import { selectorOf, spelled } from "../labels.js";
import { encoded } from "../links.js";
import { toast } from "../notices.js";
import { t, word } from "../text.js";
import { removal, table } from "../tables.js";

const ROLES = ["viewer", "operator", "editor", "admin"];

/** @param {any[]} bindings */
export function bindingsTable(bindings) {
  return table("access.bindings", [...COLUMNS, { key: "actions", draw: (/** @type {any} */ one) => removal(`/bindings/${encoded(one.id)}`, `${one.subject ?? one.id}, ${one.role ?? ""}`) }], bindings, ({ id }) => id);
}

export const COLUMNS = [
  { key: "subject", draw: (/** @type {any} */ one) => h("strong", {}, one.subject ?? one.id), className: "wraps" },
  { key: "role", draw: (/** @type {any} */ one) => word("role", one.role) },
  { key: "labels", draw: (/** @type {any} */ one) => (one.problem ? h("span", { class: "tone-bad" }, one.problem) : spelled(one.labels)), className: "wraps" },
  { key: "runAs", draw: (/** @type {any} */ one) => saves(one) && users(one.runAs), className: "wraps" },
  { key: "workers", draw: (/** @type {any} */ one) => saves(one) && spelled(one.workers), className: "wraps" },
];

/** What jobs may ask for counts for those alone who save them. @param {any} binding */
const saves = ({ role }) => role === "editor" || role === "admin";

/** @param {"all" | string[]} runAs */
const users = (runAs) => (runAs === "all" ? t("access.all") : (runAs ?? []).join(", ") || h("span", { class: "tone-warn" }, t("access.runAs.none")));

/** @param {string[]} known whom there is */
export function newBinding(known) {
  const names = h("datalist", { id: "ask-known" }, known.map((one) => h("option", { value: one })));
  return askFields({
    title: t("access.binding.new"), action: t("access.make"), intro: [h("p", { class: "muted" }, t("access.binding.why")), names],
    fields: [
      { name: "subject", label: t("column.subject"), hint: t("access.subject.hint"), attributes: { list: "ask-known", maxlength: 140, spellcheck: false } },
      { name: "role", label: t("column.role"), options: ROLES.map((role) => [role, `${word("role", role)}: ${t(`role.${role}.means`)}`]) },
      { name: "labels", label: t("access.labels"), hint: t("access.labels.hint"), attributes: { maxlength: 2000 } },
      { name: "runAs", label: t("access.runAs"), hint: t("access.runAs.hint"), attributes: { maxlength: 2000 } },
      { name: "workers", label: t("access.workers"), hint: t("access.workers.hint"), value: "all", attributes: { maxlength: 2000 } },
    ],
    send: async ({ subject, role, labels, runAs, workers }) => {
      const may = runAs.trim() === "all" ? "all" : listed(runAs);
      const made = await send("POST", "/bindings", { body: { subject: subject.trim(), role, labels: selectorOf(labels), runAs: may, workers: selectorOf(workers) } });
      made.warnings.forEach((/** @type {string} */ text) => toast(text, "bad"));
      toast(t("access.made", { what: `${subject.trim()}, ${word("role", role)}` }));
    },
  });
}
