/** Rules: which events of which jobs go to which channels. */
import { send } from "../api.js";
import { askFields, listed } from "../asking.js";
import { mayEverywhere } from "../caller.js";
import { h } from "../dom.js";
import { selectorOf, spelled } from "../labels.js";
import { encoded } from "../links.js";
import { toast } from "../notices.js";
import { removal, table } from "../tables.js";
import { t, word } from "../text.js";

/** What may be told of a job. */
export const EVENTS = (document.body.dataset.events ?? "").split(" ");

/** @param {any[]} rules */
export function rulesTable(rules) {
  return table("notifications.rules", [
    { key: "name", draw: (/** @type {any} */ one) => [h("strong", {}, one.name), one.problem && h("div", { class: "sub tone-bad" }, one.problem), one.required && h("div", { class: "sub" }, t("rule.required")), one.description && h("div", { class: "sub" }, one.description)], className: "wraps" },
    { key: "labels", draw: (/** @type {any} */ one) => (one.system ? t("rule.system") : spelled(one.labels)), className: "wraps" },
    { key: "on", draw: (/** @type {any} */ one) => [events(one.on ?? []), one.after > 1 && h("div", { class: "sub" }, t("rule.after.of", { n: one.after }))], className: "wraps" },
    { key: "to", draw: (/** @type {any} */ one) => (one.to ?? []).join(", "), className: "wraps" },
    { key: "actions", draw: (/** @type {any} */ one) => mayEverywhere(one.required || one.system ? "admin" : "editor") && removal(`/rules/${encoded(one.name)}`, one.name) },
  ], rules, ({ name }) => name);
}

/** @param {string[]} kinds */
export const events = (kinds) => kinds.map((kind) => word("event", kind)).join(", ");

/** @param {string[]} channels */
export function newRule(channels) {
  const known = h("datalist", { id: "ask-channels" }, channels.map((one) => h("option", { value: one })));
  return askFields({
    title: t("rule.new"), action: t("access.make"), intro: [known],
    fields: [
      { name: "name", label: t("column.name"), attributes: { maxlength: 128, autocapitalize: "none", spellcheck: false } },
      { name: "labels", label: t("access.labels"), hint: t("rule.labels.hint"), value: "all", attributes: { maxlength: 2000, spellcheck: false } },
      { name: "on", label: t("rule.on"), hint: t("rule.on.hint", { events: EVENTS.join(", ") }), attributes: { maxlength: 300, spellcheck: false } },
      { name: "after", label: t("rule.after"), hint: t("rule.after.hint"), type: "number", value: "1", attributes: { min: 1, max: 100 } },
      { name: "to", label: t("rule.to"), hint: t("rule.to.hint"), attributes: { list: "ask-channels", spellcheck: false } },
      { name: "repeatHours", label: t("rule.repeat"), hint: t("rule.repeat.hint"), type: "number", value: "24", attributes: { min: 0, max: 720 } },
    ],
    send: async ({ name, labels, on, after, to, repeatHours }) => {
      const chosen = labels.trim() === "system" ? { system: true } : { labels: selectorOf(labels) };
      const wanted = listed(on).length ? { on: listed(on) } : {};
      const { warnings = [] } = await send("POST", "/rules", { body: { name: name.trim(), ...chosen, ...wanted, after: Number(after), to: listed(to), repeatHours: Number(repeatHours) } });
      warnings.forEach((/** @type {string} */ text) => toast(text, "bad"));
      toast(t("access.made", { what: name.trim() }));
    },
  });
}
