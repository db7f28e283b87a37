/** How verdicts and states look: always a glyph and a word, the colour only helps. */
import { h, icon } from "./dom.js";
import { isForeign, said } from "./said.js";
import { t, word } from "./text.js";

/**
 * How a fire may end, with what `common/verdicts.py` says of it; a page of a former version does not.
 * @type {Record<string, {is_of_a_run: boolean, is_failure: boolean, is_retried: boolean, end_is_known: boolean, tone: string, icon: string, mark: string}>}
 */
const KNOWN = JSON.parse(document.body.dataset.verdicts ?? "{}");
export const VERDICTS = Object.keys(KNOWN);
export const FAILURES = VERDICTS.filter((verdict) => KNOWN[verdict].is_failure);
/** Ends of commands that went wrong themselves. */
export const RETRIED = VERDICTS.filter((verdict) => KNOWN[verdict].is_retried);
/** Without a run. */
export const NEVER_RAN = VERDICTS.filter((verdict) => !KNOWN[verdict].is_of_a_run);

/** @type {Record<string, [string, string]>} glyph, tone */
const LOOKS = {
  ...Object.fromEntries(VERDICTS.map((verdict) => [verdict, [KNOWN[verdict].icon, KNOWN[verdict].tone]])),
  created: ["circle-half", "run"],
  claimed: ["clock", "run"],
  running: ["play-circle-fill", "run"],
  ended: ["clock-history", "run"],
  ending: ["clock-history", "warn"],
  waiting: ["hourglass-bottom", "warn"],
  planned: ["calendar3", "plain"],
  closed: ["slash-circle", "idle"],
  none: ["pause-circle", "idle"],
  unknown: ["question-diamond-fill", "idle"],
  enabled: ["check2", "plain"],
  paused: ["pause-circle", "idle"],
  broken: ["exclamation-triangle-fill", "bad"],
  ok: ["check-circle-fill", "ok"],
  ready: ["check-circle-fill", "ok"],
  accepting: ["check-circle-fill", "ok"],
  degraded: ["exclamation-triangle-fill", "warn"],
  "not accepting": ["pause-circle", "warn"],
  draining: ["pause-circle", "warn"],
  drained: ["pause-circle", "idle"],
  stopped: ["pause-circle", "idle"],
  gone: ["x-circle-fill", "bad"],
  detached: ["question-diamond-fill", "warn"],
  unready: ["x-circle-fill", "bad"],
  unreachable: ["x-circle-fill", "bad"],
};
const UNKNOWN = ["circle", "idle"];

/** What a run is shown as: its verdict, or where it is on the way to one; or that processes of it are left. @param {any} run */
export const codeOf = ({ status, state }) => (state === "ending" ? state : status ?? state);

/** @param {string} code */
export const toneOf = (code) => (LOOKS[code] ?? UNKNOWN)[1];

/**
 * Glyph and word of a verdict or of a state.
 * @param {string} code
 * @param {{href?: string, title?: string, of?: string}} [options] `of`: what it is of, for who hears links without their row
 */
export function badge(code, { href, title, of } = {}) {
  const [glyph, tone] = LOOKS[code] ?? UNKNOWN, text = word("verdict", code);
  return h(href ? "a" : "span", { class: `badge tone-${tone}`, href, title, "aria-label": href && of ? `${text}: ${of}` : null }, icon(glyph), " ", text);
}

/** Verdicts whose reasons are phrases of etcron's own; that of a kill may be a user's. */
const OWN = [...NEVER_RAN, "lost", "waiting", "planned", "none", "unknown"];

/** An error may be the command's own: so many characters of it are of a text of etcron's, or it stays as it is. */
const OURS_AT_LEAST = 12;

const LONGEST_CAUSE = 200;

/** So many workers are told of without being asked for. */
const SHOWN = 3;

/** A reason in words: the phrase that etcron keeps it by, then what it says beside it. @param {string} reason */
function reasonOf(reason) {
  const at = reason.indexOf(": ");
  return at < 0 ? word("why", reason) : `${word("why", reason.slice(0, at))}${t("colon")}${said(reason.slice(at + 2))}`;
}

/** The same of a reason that may be anybody's: what is not kept by a phrase is as it was said. @param {string} reason */
export const reasonIn = (reason) => (word("why", reason.split(": ", 1)[0], "") ? reasonOf(reason) : said(reason));

/**
 * Why it did not go well, or did not run; the verdict stands beside it already.
 * @param {{status?: string, verdict?: string, err?: string | null, reason?: string | null, waitsFor?: string}} run or a fire
 */
export function whyOf({ status, verdict = status, err, reason, waitsFor }) {
  if (waitsFor) return t("run.waits.for", { what: waitsFor });
  if (reason && OWN.includes(verdict ?? "")) return reasonOf(reason);
  const text = (err || reason || "").replace(`${verdict}: `, "");
  if (!reason || text.includes(reason)) return text === reason ? word("why", text) : text;
  return `${text}; ${word("why", reason)}`;
}

/**
 * The same, with what is in the way of each worker apart: first the one cause, then a line a worker, folded where they are
 * more than three.
 * @param {Parameters<typeof whyOf>[0]} fire or a run
 * @returns {import("./dom.js").Child[]}
 */
export function whyApart(fire) {
  return [apart(whyOf(fire)).cause, ...perWorker(fire)];
}

/** What is in the way of each worker alone. @param {Parameters<typeof whyOf>[0]} fire or a run @returns {HTMLElement[]} */
export function perWorker(fire) {
  const lines = apart(whyOf(fire)).workers.map(([worker, why]) => h("li", {}, h("strong", {}, worker), " ", why));
  if (!lines.length) return [];
  const list = (/** @type {HTMLElement[]} */ some) => h("ul", { class: "by-worker" }, some);
  const folded = lines.length > SHOWN ? [h("details", {}, h("summary", {}, t("apart.more", { n: lines.length - SHOWN })), list(lines.slice(SHOWN)))] : [];
  return [list(lines.slice(0, SHOWN)), ...folded];
}

/** In a line: the cause, and of how many workers. @param {Parameters<typeof whyOf>[0]} fire or a run */
export function whyInShort(fire) {
  if (fire.reason?.startsWith("overlap: ")) return word("why", "overlap"); // which run it was is told on its page
  const { cause, workers } = apart(whyOf(fire));
  return workers.length > 1 ? t("apart.workers", { cause, n: workers.length }) : whyOf(fire);
}

/** A worker's name, maybe with its labels, and what separates it from what is in its way. */
const OF_WORKER = /^(\S+(?: \([^)]*\))?)(?:: |：| ?(?=has been |自 ))(.*)$/s;

/** What etcron says of several workers: the cause, and each with what is in its way. @param {string} text @returns {{cause: string, workers: [string, string][]}} */
export function apart(text) {
  const ends = t("apart.after").split("|").filter((one) => text.includes(one)).map((one) => text.indexOf(one) + one.length);
  const end = Math.max(0, ...ends);
  /** @type {[string, string][]} */
  const workers = [];
  for (const piece of end ? text.slice(end).split(/; |；/) : []) {
    const [, worker, why] = OF_WORKER.exec(piece) ?? [];
    if (worker) workers.push([worker, why]);
    else if (!workers.length) return { cause: text, workers }; // of no worker
    else workers[workers.length - 1][1] += `; ${piece}`; // somebody's own words have one too
  }
  return { cause: workers.length ? text.slice(0, end).replace(/[:：] ?$/, "") : text, workers };
}

/** What the runs of a group have in common, beside their verdict. @param {any} group as GET /runs?group=error or GET /alerts has it: its `error` is a key, in English and cut */
export function causeOf({ error, exitCode, signal, reason, status, runs }) {
  const detail = error.slice(status.length + 2);
  if (status === "failed") return exitCode !== undefined ? t("run.exit", { code: String(exitCode) }) : signal !== undefined ? t("run.signal", { signal: String(signal) }) : inShort(said(runs?.[0].err || detail, OURS_AT_LEAST));
  return word("why", detail, "") || (detail && isForeign && reason ? reason.split(t("colon"))[0] : detail);
}

/** As much of an error as a line of a list has. @param {string} text */
function inShort(text) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > LONGEST_CAUSE ? `${line.slice(0, LONGEST_CAUSE)}…` : line;
}

/** By its colour, its height and its mark. @param {string} verdict @returns {string} classes */
export function lookOf(verdict) {
  const height = NEVER_RAN.includes(verdict) ? "low" : FAILURES.includes(verdict) ? "high" : "";
  const shape = [verdict, height, KNOWN[verdict]?.mark].filter(Boolean).map((one) => `is-${one}`);
  return `tone-${toneOf(verdict)} ${shape.join(" ")}`;
}

/**
 * The newest verdicts, oldest first: a bar each, told apart by height and shape too; in words for who cannot see it.
 * @param {{status: string, planTime: number}[]} recent
 * @param {(ms: number) => string} when
 */
export function strip(recent, when) {
  const bars = recent.map(({ status, planTime }) =>
    h("span", { class: `bar-of ${lookOf(status)}`, title: `${word("verdict", status)} ${when(planTime)}` }));
  return h("span", { class: "strip", role: "img", "aria-label": summary(recent) }, bars);
}

/** @param {{status: string}[]} recent */
export function summary(recent) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { status } of recent) counts.set(status, (counts.get(status) ?? 0) + 1);
  const words = [...counts].map(([status, count]) => `${count} ${word("verdict", status)}`);
  return t("strip.summary", { n: recent.length, counts: words.join(", ") });
}
