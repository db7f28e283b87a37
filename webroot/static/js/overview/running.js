/** The runs that have been going for longest: how far each is, by how long it usually takes, and what it printed last. */
import { killsRun } from "../actions.js";
import { get } from "../api.js";
import { offered } from "../caller.js";
import { everySecond, now } from "../clock.js";
import { h, icon } from "../dom.js";
import { whole } from "../durations.js";
import { encoded, runUrl } from "../links.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { lastLineOf } from "../run/progress_lines.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { badge, codeOf } from "../verdicts.js";

/** Beyond this share of what is usual it is said. */
const LONG = 1.5;
/** The last that says something is among so many. */
const LINES = 10;

/** @typedef {any} Going as `longest` of GET /overview says */

export class Running {
  /** @param {HTMLElement} part */
  constructor(part) {
    this.part = part;
    /** @type {import("./page.js").Overview | null} */
    this.seen = null;
    /** What is known of each, by its id. @type {Map<string, {line: string, progress: {percent: number, text: string} | null}>} */
    this.printed = new Map();
    /** Those that are asked for, the one that has waited longest first; new ones last, as short runs are new each time. @type {string[]} */
    this.turn = [];
    this.asking = new Refresher(() => this.askNext());
    everySecond(() => {
      refresh();
      if (this.turn.length) this.asking.soon();
    });
  }

  /** @param {import("./page.js").Overview} seen */
  show(seen) {
    this.seen = seen;
    const ids = seen.longest.map((/** @type {Going} */ run) => run.id);
    this.turn = [...this.turn.filter((id) => ids.includes(id)), ...ids.filter((/** @type {string} */ id) => !this.turn.includes(id))];
    for (const id of this.printed.keys()) if (!ids.includes(id)) this.printed.delete(id);
    this.draw();
  }

  /** One of them, in turn. */
  async askNext() {
    const id = this.turn[0];
    if (id === undefined) return;
    // The first answer is often empty, as its worker sends nothing before: it is asked once more then.
    this.turn.splice(this.printed.has(id) ? this.turn.length : 1, 0, /** @type {string} */ (this.turn.shift()));
    try {
      const { text, progress } = await get(`/runs/${encoded(id)}/output`, { query: { tail: LINES } });
      this.printed.set(id, { line: lastLineOf(text), progress: progress ?? null });
      this.draw();
    } catch {
      if (!this.printed.has(id)) this.printed.set(id, { line: "", progress: null }); // it has ended, or its worker does not tell
    }
  }

  draw() {
    const { seen } = this;
    if (!seen) return;
    const rest = seen.running - seen.longest.length;
    redraw(this.part, seen.longest.length ? h("ul", { class: "going" }, seen.longest.map((/** @type {Going} */ run) => this.row(run))) : h("p", { class: "muted" }, t("overview.running.none")),
      seen.checks.logStore === "away" && seen.longest.length > 0 && h("p", { class: "sub tone-warn" }, t("overview.running.unsure")),
      rest > 0 && h("p", { class: "sub" }, h("a", { href: "/runs?status=running" }, t("overview.running.more", { n: rest }))));
    refresh();
  }

  /** @param {Going} run */
  row(run) {
    const { line, progress } = this.printed.get(run.id) ?? { line: "", progress: null };
    const code = codeOf(run);
    return h("li", { "data-key": run.id, "data-row": true },
      h("div", { class: "going-what" }, h("a", { href: runUrl(run.id), class: "row-name clip", "data-row-link": true, title: t("overview.open.run") }, run.jobName), h("span", { class: "sub" }, run.worker)),
      h("div", { class: "going-far" }, code === "running" ? this.far(run, progress) : badge(code)),
      h("button", { type: "button", class: "btn btn-quiet btn-icon", ...killsRun(run), ...offered("kill", run.labels, { title: t("action.kill") }) }, icon("x-octagon")),
      line && h("code", { class: "going-line clip", title: line }, line));
  }

  /** @param {Going} run @param {{percent: number, text: string} | null} progress */
  far({ startTime, usualMs, jobName }, progress) {
    const said = progress ? ` ${Math.round(progress.percent)} %` : usualMs ? ` ${t("overview.usually", { time: whole(Math.max(usualMs, 1000)) })}` : "";
    const of = progress ? { max: 100, value: progress.percent } : { max: usualMs, "data-since": startTime, "data-usual": usualMs };
    return [h("span", {}, stamp(startTime, { as: "lasting" }), h("span", { class: "muted" }, said)),
      (progress || usualMs) && h("progress", { ...of, "aria-label": t("overview.progress", { job: jobName }) })];
  }
}

function refresh() {
  document.querySelectorAll("progress[data-since]").forEach((bar) => {
    const { since, usual } = bar.dataset;
    const share = (now() - Number(since)) / Number(usual);
    bar.value = Math.min(share, 1) * Number(usual);
    bar.classList.toggle("is-long", share > LONG);
  });
}
