/** The attempts of one fire: what each came to, or where it stands, with a link to each other. */
import { h } from "../dom.js";
import { runUrl } from "../links.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { badge } from "../verdicts.js";

/** @param {any} run as GET /runs/{id} says @returns {import("../dom.js").Child} */
export function attemptsOf({ id, attempts = [] }) {
  if (attempts.length < 2) return null;
  return h("nav", { class: "attempts", "aria-label": t("run.attempts") }, attempts.map((/** @type {any} */ one) => {
    const inner = [h("span", { class: "sub" }, t("job.attempt", { n: one.attempt })), " ", badge(one.status ?? one.state), one.notBefore && [" ", stamp(one.notBefore, { as: "until" })]].flat();
    return one.id === id ? h("span", { class: "attempt is-this", "aria-current": "page", "data-key": one.id }, inner) : h("a", { class: "attempt", href: runUrl(one.id) }, inner);
  }));
}
