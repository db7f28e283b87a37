/** Channels: a mail address, a URL or a job, with what it takes to get there; what is secret is named, not shown. */
import { send } from "../api.js";
import { askFields, listed } from "../asking.js";
import { mayEverywhere } from "../caller.js";
import { h, icon } from "../dom.js";
import { selectorOf, spelled } from "../labels.js";
import { encoded } from "../links.js";
import { table, removal } from "../tables.js";
import { toast } from "../notices.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";

/** What a channel of each kind has, besides its labels: the fields of the dialog, in their order. @type {Record<string, string[]>} */
const FIELDS = {
  email: ["to", "from", "host", "port", "tls", "user", "passwordSecret"],
  webhook: ["url", "urlSecret", "signingSecret"],
  slack: ["url", "urlSecret"],
  command: ["job"],
};
/** @type {Record<string, Record<string, unknown>>} */
const INPUTS = { port: { type: "number", attributes: { min: 1, max: 65535 } }, tls: { options: ["starttls", "tls", "none"].map((one) => [one, one]) } };

/** @param {any[]} channels */
export function channelsTable(channels) {
  return table("notifications.channels", [
    { key: "name", draw: (/** @type {any} */ one) => [h("strong", {}, one.name), one.description && h("div", { class: "sub" }, one.description)], className: "wraps" },
    { key: "kind", draw: (/** @type {any} */ one) => word("channel.kind", one.kind) },
    { key: "to", draw: address, className: "wraps" },
    { key: "labels", draw: (/** @type {any} */ one) => spelled(one.labels ?? "all"), className: "wraps" },
    { key: "state", draw: state, className: "wraps" },
    { key: "actions", draw: (/** @type {any} */ one) => mayEverywhere("admin") && [
      h("button", { type: "button", class: "btn btn-plain", "data-key": "test", "data-test": one.name, "aria-label": `${t("channel.test")}: ${one.name}` }, icon("send"), " ", t("channel.test")),
      removal(`/channels/${encoded(one.name)}`, one.name)] },
  ], channels, ({ name }) => name);
}

/** @param {any} channel */
function address({ to = [], url, urlSecret, job }) {
  if (to.length) return to.join(", ");
  return url ?? (urlSecret ? t("channel.secret", { name: urlSecret }) : job);
}

/** @param {any} channel its `state` is null while the log store is away */
function state({ state: counts, problem }) {
  const { waiting = 0, failed = 0, lastSentTime, lastError } = counts ?? {};
  return [
    problem && h("div", { class: "sub tone-bad" }, problem),
    lastSentTime && h("div", {}, t("channel.sent"), " ", stamp(lastSentTime)),
    waiting > 0 && h("div", { class: "sub" }, t("channel.waiting", { n: waiting })),
    failed > 0 && h("div", { class: "sub tone-bad" }, t("channel.failed", { n: failed })),
    lastError && h("div", { class: "sub tone-bad" }, lastError),
  ];
}

/** First of which kind, then what that kind needs. */
export async function newChannel() {
  let kind = "";
  const kinds = Object.keys(FIELDS).map((one) => /** @type {[string, string]} */ ([one, `${word("channel.kind", one)}: ${t(`channel.kind.${one}.means`)}`]));
  const chosen = await askFields({
    title: t("channel.new"), action: t("channel.go.on"), fields: [{ name: "kind", label: t("column.kind"), options: kinds }],
    send: async (values) => void (kind = values.kind),
  });
  if (!chosen) return false;
  return askFields({
    title: `${t("channel.new")}: ${word("channel.kind", kind)}`, action: t("access.make"),
    fields: [
      { name: "name", label: t("column.name"), attributes: { maxlength: 128, autocapitalize: "none", spellcheck: false } },
      ...FIELDS[kind].map((name) => ({ name, label: t(`channel.${name}`), hint: t(`channel.${name}.hint`), ...INPUTS[name] })),
      { name: "labels", label: t("channel.labels"), hint: t("channel.labels.hint"), value: "all", attributes: { maxlength: 2000, spellcheck: false } },
      { name: "description", label: t("channel.description"), attributes: { maxlength: 300 } },
    ],
    send: async (values) => {
      await send("POST", "/channels", { body: bodyOf(kind, values) });
      toast(t("access.made", { what: values.name.trim() }));
    },
  });
}

/** What was left empty is left out. @param {string} kind @param {Record<string, string>} values */
function bodyOf(kind, { to, port, labels, ...texts }) {
  const given = Object.entries(texts).map(([name, text]) => [name, text.trim()]).filter(([, text]) => text);
  const selector = selectorOf(labels);
  return {
    kind, ...Object.fromEntries(given), ...(selector === "all" ? {} : { labels: selector }),
    ...(to === undefined ? {} : { to: listed(to) }), ...(port ? { port: Number(port) } : {}),
  };
}
