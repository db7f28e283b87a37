/** Notices: what waits, what was sent, what failed and why. */
import { mayEverywhere } from "../caller.js";
import { h, icon } from "../dom.js";
import { jobUrl, runUrl } from "../links.js";
import { stamp } from "../stamp.js";
import { table } from "../tables.js";
import { t, word } from "../text.js";

/** @type {Record<string, string>} */
const TONES = { sent: "tone-ok", failed: "tone-bad" };

/** @param {any[]} notices as GET /notices says, `err` in words */
export function noticesTable(notices) {
  return table("notifications.notices", [
    { key: "state", draw: (/** @type {any} */ one) => [h("span", { class: TONES[one.state] }, t(`notice.${one.state}`)), one.tries > 1 && h("div", { class: "sub" }, t("notice.tries", { n: one.tries }))] },
    { key: "channel", draw: (/** @type {any} */ one) => one.channel },
    { key: "what", draw: (/** @type {any} */ one) => [h("div", {}, word("notice.kind", one.kind)), ...(one.groups ?? []).slice(0, 5).map(group), first(one.events)], className: "wraps" },
    { key: "when", draw: (/** @type {any} */ one) => [stamp(one.sentTime ?? one.createdTime), one.state === "waiting" && h("div", { class: "sub" }, t("notice.due"), " ", stamp(one.dueTime, { as: "until" }))] },
    { key: "problem", draw: (/** @type {any} */ one) => one.err && h("span", { class: "tone-bad" }, one.err), className: "wraps" },
    { key: "actions", draw: (/** @type {any} */ one) => one.state === "failed" && mayEverywhere("admin") && h("button", { type: "button", class: "btn btn-plain", "data-key": "resend", "data-resend": one.id }, icon("arrow-repeat"), " ", t("notice.resend")) },
  ], notices, ({ id }) => id);
}

/** @param {{kind: string, count: number, worker?: string}} group */
const group = ({ kind, count, worker }) => h("div", { class: "sub" }, `${count} × ${word("event", kind)}`, worker && ` (${worker})`);

/** @param {any[]} events */
function first([event] = []) {
  if (!event?.job) return null;
  return h("div", { class: "sub" }, h("a", { href: event.run ? runUrl(event.run) : jobUrl(event.job) }, event.job));
}
