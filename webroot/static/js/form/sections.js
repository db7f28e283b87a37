/** The folded sections: what each holds, in one line. */
import { whole } from "../durations.js";
import { byId, fill, h } from "../dom.js";
import { size, t, word } from "../text.js";
import { DEFAULTS, same, shown, triggerOf } from "./spec.js";

const DELAYS_SHOWN = 4;

/** @typedef {Record<string, any>} Fields */

/** A number of seconds in words; what is none as it was typed. @param {any} value */
const time = (value) => (typeof value === "number" && value >= 0 ? spoken(value) : shown(value));
/** @param {number} seconds */
const spoken = (seconds) => (seconds < 60 ? t("duration.s", { s: seconds }) : whole(seconds * 1000).replace(/ 0+\D+$/, ""));

/** What a section holds, in a few words each. @type {Record<string, (fields: Fields) => (string | null | false)[]>} */
const HOLDS = {
  window: window_,
  limits: (fields) => [
    triggerOf(fields) !== "after" && t("holds.overlap", { what: word("field.overlap", fields.overlap) }),
    fields.timeoutSeconds ? t("holds.timeout", { time: time(fields.timeoutSeconds) }) : t("holds.timeout.none"),
    fields.killGraceSeconds !== DEFAULTS.killGraceSeconds && t("holds.grace", { time: time(fields.killGraceSeconds) }),
  ],
  retry,
  late: (fields) => [
    t("holds.late", { time: time(fields["misfire.graceSeconds"]) }),
    t("holds.missed", { what: word("field.misfire.policy", fields["misfire.policy"]) }),
    t("holds.lost", { what: word("field.onWorkerLost", fields.onWorkerLost) }),
    lostAfter(fields.lostAfterSeconds),
  ],
  where,
  surroundings: (fields) => [
    Object.keys(fields.env).length ? t("holds.env", { n: Object.keys(fields.env).length }) : t("holds.env.none"),
    fields.workdir ? t("holds.workdir", { path: fields.workdir }) : t("holds.workdir.none"),
    fields.user && t("holds.user", { user: fields.user }),
    fields.shell,
    t("holds.output", { size: typeof fields.outputLimitBytes === "number" ? size(fields.outputLimitBytes) : shown(fields.outputLimitBytes) }),
  ],
  labelled: (fields) => [shown(fields.labels) || t("holds.none")],
};

/** @param {Fields} fields */
export function drawSections(fields) {
  for (const [name, holds] of Object.entries(HOLDS)) {
    const section = document.querySelector(`[data-group=${name}]`);
    const line = section.querySelector("[data-summary]");
    const isChanged = [...section.querySelectorAll("[data-field]")].some(({ dataset: { field } }) => !same(fields[field], DEFAULTS[field]));
    fill(line, isChanged && h("span", { class: "visually-hidden" }, t("form.changed")), holds(fields).filter(Boolean).join(" · "));
    line.classList.toggle("is-changed", isChanged);
  }
  byId("retry-delays").textContent = delays(fields);
}

/** The button that unfolds all, and folds all again. @param {HTMLElement} button */
export function startUnfolding(button) {
  const all = () => [...document.querySelectorAll(".job-form details")];
  const isEveryOpen = () => all().every((one) => one.open);
  const draw = () => void (button.textContent = isEveryOpen() ? t("form.fold") : t("form.unfold"));
  button.addEventListener("click", () => {
    const open = !isEveryOpen();
    all().forEach((one) => void (one.open = open));
  });
  all().forEach((one) => one.addEventListener("toggle", draw));
}

/** @param {Fields} fields */
function window_({ startAt, endAt, calendar, jitterSeconds }) {
  const [[mode, days] = ["", []]] = Object.entries(calendar ?? {});
  const held = [
    startAt && t("holds.from", { time: startAt }), endAt && t("holds.until", { time: endAt }),
    mode && t(`holds.${mode}`, { n: days.length }), jitterSeconds !== 0 && t("holds.jitter", { time: time(jitterSeconds) }),
  ];
  return held.some(Boolean) ? held : [t("holds.window.none")];
}

/** @param {Fields} fields */
function retry(fields) {
  const { "retry.limit": limit, "retry.backoff": factor, "retry.onExitCodes": codes } = fields;
  if (limit === 0) return [t("holds.retry.none")];
  const delay = time(fields["retry.delaySeconds"]);
  const pace = factor === 1 ? t("holds.apart", { time: delay }) : factor === 2 ? t("holds.doubling", { time: delay }) : t("holds.growing", { time: delay, factor });
  return [
    typeof limit === "number" ? t("holds.retry", { n: limit, pace }) : limit,
    codes.length > 0 && t("holds.codes", { codes: codes.join(", ") }), fields["retry.otherWorker"] && t("holds.elsewhere"),
  ];
}

/** @param {any} seconds */
const lostAfter = (seconds) => (seconds === "never" ? t("holds.lost.never") : seconds !== null && t("holds.lost.after", { time: time(seconds) }));

/** @param {Fields} fields */
function where({ workers, broadcast, slots, priority }) {
  const labels = Object.entries(workers).map(([name, values]) => `${name}=${[values].flat().join("|")}`).join(", ");
  const on = broadcast ? (labels ? t("holds.all.with", { labels }) : t("holds.all")) : labels ? t("holds.any.with", { labels }) : t("holds.any");
  return [on, typeof slots === "number" ? t("holds.slots", { n: slots }) : slots, priority !== 0 && t("holds.priority", { priority })];
}

/** When the attempts come, as one would count them. @param {Fields} fields */
function delays(fields) {
  const [limit, delay, factor, most] = ["limit", "delaySeconds", "backoff", "maxDelaySeconds"].map((name) => fields[`retry.${name}`]);
  if (![limit, delay, factor, most].every((one) => typeof one === "number") || limit < 1) return "";
  const times = Array.from({ length: Math.min(limit, DELAYS_SHOWN) }, (_, at) => spoken(Math.round(Math.min(most, delay * factor ** at) * 10) / 10));
  return t("holds.delays", { delays: `${times.join(", ")}${limit > DELAYS_SHOWN ? ", …" : ""}` });
}
