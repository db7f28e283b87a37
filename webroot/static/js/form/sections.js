/** The folded sections: what each holds, in one line. */
import { whole } from "../durations.js";
import { byId, fill, h } from "../dom.js";
import { choiceOf, DEFAULTS, FIELDS, labelOf } from "../schema.js";
import { size, t, word } from "../text.js";
import { same, shown, triggerOf } from "./spec.js";

const DELAYS_SHOWN = 4;

/** @typedef {Record<string, any>} Fields */

/** A number of seconds in words; what is none as it was typed. @param {any} value */
const time = (value) => (typeof value === "number" && value >= 0 ? spoken(value) : shown(value));
/** @param {number} seconds */
const spoken = (seconds) => (seconds < 60 ? t("duration.s", { s: seconds }) : whole(seconds * 1000).replace(/ 0+\D+$/, ""));
const silent = () => null;

/** Fields that have more to say than their label and what was changed. @type {Record<string, (value: any, fields: Fields) => string | number | null | false>} */
const HOLDS = {
  startAt: (value) => value && t("holds.from", { time: value }),
  endAt: (value) => value && t("holds.until", { time: value }),
  calendar: (value) => value && Object.entries(value).map(([mode, days]) => t(`holds.${mode}`, { n: days.length }))[0],
  jitterSeconds: (value) => value !== 0 && t("holds.jitter", { time: time(value) }),
  overlap: (value, fields) => triggerOf(fields) !== "after" && t("holds.overlap", { what: choiceOf("overlap", value) ?? value }),
  timeoutSeconds: (value) => (value ? t("holds.timeout", { time: time(value) }) : t("holds.timeout.none")),
  killGraceSeconds: (value) => value !== DEFAULTS.killGraceSeconds && t("holds.grace", { time: time(value) }),
  "retry.limit": retry, "retry.delaySeconds": silent, "retry.backoff": silent, "retry.maxDelaySeconds": silent, "retry.jitter": silent,
  "retry.onExitCodes": (codes, fields) => fields["retry.limit"] !== 0 && codes.length > 0 && t("holds.codes", { codes: codes.join(", ") }),
  "retry.otherWorker": (value, fields) => fields["retry.limit"] !== 0 && value && t("holds.elsewhere"),
  "misfire.policy": (value) => t("holds.missed", { what: choiceOf("misfire.policy", value) ?? value }),
  "misfire.graceSeconds": (value) => t("holds.late", { time: time(value) }), "misfire.windowSeconds": silent, "misfire.limit": silent,
  onWorkerLost: (value) => t("holds.lost", { what: choiceOf("onWorkerLost", value) ?? value }),
  lostAfterSeconds: (value) => (value === "never" ? t("holds.lost.never") : value !== null && t("holds.lost.after", { time: time(value) })),
  workers: where, broadcast: silent,
  slots: (value) => (typeof value === "number" ? t("holds.slots", { n: value }) : value),
  priority: (value) => value !== 0 && t("holds.priority", { priority: value }),
  env: (value) => (Object.keys(value).length ? t("holds.env", { n: Object.keys(value).length }) : t("holds.env.none")),
  secrets: (value, fields) => secretNames(value, fields.secretFiles), secretFiles: silent,
  workdir: (value) => (value ? t("holds.workdir", { path: value }) : t("holds.workdir.none")),
  user: (value) => value && t("holds.user", { user: value }),
  shell: (value) => value,
  outputLimitBytes: (value) => t("holds.output", { size: typeof value === "number" ? size(value) : shown(value) }),
  description: silent,
  links: (value) => value.length > 0 && t("holds.links", { n: value.length }),
  notify: (value) => value.length > 0 && t("holds.told", { to: value.map((/** @type {any} */ one) => one.to).join(", ") }),
  warnAfterSeconds: (value) => value !== 0 && t("holds.slow", { time: time(value) }),
  lateAfterSeconds: (value) => value !== 0 && t("holds.told.late", { time: time(value) }),
  silentAfterSeconds: (value) => value !== 0 && t("holds.silent", { time: time(value) }),
  suspiciousBelowSeconds: (value) => value !== 0 && t("holds.fast", { time: time(value) }),
  labels: (value) => shown(value),
};

/** @param {Record<string, string>} values @param {Record<string, string> | undefined} files */
function secretNames(values, files) {
  const n = Object.keys(values).length + Object.keys(files ?? {}).length;
  return n > 0 && t("holds.secrets", { n });
}

/** @param {Fields} fields */
export function drawSections(fields) {
  for (const section of document.querySelectorAll("[data-group]")) {
    const name = /** @type {HTMLElement} */ (section).dataset.group;
    const line = section.querySelector("[data-summary]");
    const own = [...FIELDS.values()].filter((one) => one.section === name).map(({ path }) => path);
    const isChanged = (/** @type {string} */ path) => !same(fields[path] === "" ? null : fields[path], DEFAULTS[path]);
    const said = own.map((path) => (HOLDS[path] ? HOLDS[path](fields[path], fields) : isChanged(path) && `${labelOf(path)}: ${shown(fields[path])}`)).filter(Boolean);
    const changed = own.some(isChanged);
    fill(line, changed && h("span", { class: "visually-hidden" }, t("form.changed")), said.join(" · ") || word("holds", `${name}.none`, t("holds.none")));
    line.classList.toggle("is-changed", changed);
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

/** How often, and how far apart. @param {any} limit @param {Fields} fields */
function retry(limit, fields) {
  if (typeof limit !== "number" || limit === 0) return limit || null;
  const [delay, factor] = [time(fields["retry.delaySeconds"]), fields["retry.backoff"]];
  const pace = factor === 1 ? t("holds.apart", { time: delay }) : factor === 2 ? t("holds.doubling", { time: delay }) : t("holds.growing", { time: delay, factor });
  return t("holds.retry", { n: limit, pace });
}

/** @param {Fields["workers"]} workers @param {Fields} fields */
function where(workers, { broadcast }) {
  const labels = Object.entries(workers).map(([name, values]) => `${name}=${[values].flat().join("|")}`).join(", ");
  if (broadcast) return labels ? t("holds.all.with", { labels }) : t("holds.all");
  return labels ? t("holds.any.with", { labels }) : t("holds.any");
}

/** When the attempts come, as one would count them. @param {Fields} fields */
function delays(fields) {
  const [limit, delay, factor, most] = ["limit", "delaySeconds", "backoff", "maxDelaySeconds"].map((name) => fields[`retry.${name}`]);
  if (![limit, delay, factor, most].every((one) => typeof one === "number") || limit < 1) return "";
  const times = Array.from({ length: Math.min(limit, DELAYS_SHOWN) }, (_, at) => spoken(Math.round(Math.min(most, delay * factor ** at) * 10) / 10));
  return t("holds.delays", { delays: `${times.join(", ")}${limit > DELAYS_SHOWN ? ", …" : ""}` });
}
