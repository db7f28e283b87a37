/** The jobs that fail, those together that fail alike: what, since when, the last line that one of them printed. */
import { actOnAll } from "../actions_on_all.js";
import { ApiError, jobPath, send } from "../api.js";
import { offered } from "../caller.js";
import { askFor } from "../dialogs.js";
import { delegate, fill, h, icon } from "../dom.js";
import { jobUrl, runUrl } from "../links.js";
import { said, toast } from "../notices.js";
import { onlyOnce, saidOnce } from "../once.js";
import { uncoloured } from "../printed.js";
import { redraw } from "../redraw.js";
import { silenceAll } from "../silencing.js";
import { stamp } from "../stamp.js";
import { number, t, word } from "../text.js";
import { badge, whyOf } from "../verdicts.js";

/** As many may be asked for at once. */
const AT_ONCE = 4;

/** @typedef {any} Alike as `groups` of GET /overview says */

export class Attention {
  /** @param {HTMLElement} part @param {() => void} done */
  constructor(part, done) {
    this.part = part;
    /** @type {Alike[]} */
    this.groups = [];
    /** The groups whose jobs are unfolded. @type {Set<string>} */
    this.unfolded = new Set();
    /** @type {import("./page.js").Overview | null} */
    this.seen = null;
    delegate(part, "click", "[data-unfold]", ({ dataset: { unfold } }) => {
      if (!this.unfolded.delete(unfold)) this.unfolded.add(unfold);
      this.draw();
    });
    delegate(part, "click", "[data-all]", async ({ dataset: { all, group, name } }) => {
      const names = name ? [name] : this.groups.find((one) => keyOf(one) === group)?.names;
      if (names && (await ON_ALL[all](names))) done();
    });
  }

  /** @param {import("./page.js").Overview} seen */
  show(seen) {
    this.seen = seen;
    this.groups = seen.attention?.groups ?? [];
    this.draw();
  }

  draw() {
    const { seen } = this;
    if (!seen) return;
    const { attention, jobs } = seen;
    this.part.hidden = !this.groups.length;
    redraw(this.part, this.groups.length > 0 && [
      h("h2", { id: "attention-title" }, t("overview.attention"), " ", h("span", { class: "muted" }, number(jobs.failing))),
      h("ul", { class: "alike" }, this.groups.map((group) => this.group(group))),
      attention.moreGroups > 0 && h("p", { class: "sub" }, h("a", { href: "/jobs?state=failing" }, t("overview.attention.more", { n: attention.moreGroups }))),
      attention.lookedAt < jobs.failing && h("p", { class: "sub" }, t("overview.attention.first", { n: attention.lookedAt })),
    ]);
  }

  /** @param {Alike} group */
  group(group) {
    const key = keyOf(group);
    const { result, jobs, count } = group;
    const isOpen = count > 1 && this.unfolded.has(key);
    const silenced = jobs.every((/** @type {any} */ one) => one.silencedUntil) ? Math.min(...jobs.map((/** @type {any} */ one) => one.silencedUntil)) : null;
    const why = count === 1 && !group.lastLine ? whyOf(result) : errorOf(group);
    return h("li", { "data-key": key, "data-row": true, class: silenced ? "is-quiet" : null },
      h("div", { class: "alike-what" },
        h("strong", {}, count > 1 ? t("overview.jobs", { n: count }) : h("a", { href: jobUrl(jobs[0].name), class: "row-name", "data-row-link": true }, jobs[0].name)), " ",
        badge(group.status), " ", h("span", {}, why), " ",
        h("span", { class: "muted" }, t("overview.since"), " ", stamp(group.sinceTime), " (", stamp(group.sinceTime, { as: "ago" }), ")"),
        silenced && h("span", { class: "muted" }, " ", icon("bell-slash"), " ", t("alert.silenced"), " ", stamp(silenced))),
      group.lastLine && h("a", { class: "alike-line", href: runUrl(result.runId), title: t("overview.open.run") }, count > 1 && h("span", { class: "muted" }, `${jobs[0].name}: `), h("code", {}, uncoloured(group.lastLine))),
      count > 1 && h("div", { class: "alike-names" },
        jobs.slice(0, 3).map((/** @type {any} */ one, /** @type {number} */ at) => h("a", { href: jobUrl(one.name), "data-key": `name ${one.name}`, "data-row-link": at === 0 }, one.name)),
        count > 3 && h("button", { type: "button", class: "btn btn-quiet", "data-key": "unfold", "data-unfold": key, "aria-expanded": String(isOpen) }, icon(isOpen ? "chevron-up" : "chevron-down"), " ", t(isOpen ? "overview.fold" : "overview.unfold", { n: count - 3 }))),
      isOpen && h("ul", { class: "alike-jobs" }, jobs.slice(3).map(jobOf), count > jobs.length && h("li", {}, h("a", { href: "/jobs?state=failing" }, t("overview.attention.all", { n: count })))),
      h("div", { class: "buttons-of" }, count > 1 ? forAll(group, key) : forOne(jobs[0])));
  }
}

/** @param {Alike} group */
const keyOf = ({ status, exitCode, signal, reason }) => [status, exitCode, signal, reason].join(" ");

/** @param {Alike} group */
function errorOf({ status, exitCode, signal, reason, result }) {
  if (status === "timeout" && result.err) return result.err;
  if (signal !== null) return t("overview.signal", { signal });
  return exitCode !== null ? t("overview.exit", { code: exitCode }) : word("why", reason);
}

/** @param {any} job */
const jobOf = (job) => h("li", { "data-key": job.name },
  h("a", { href: jobUrl(job.name) }, job.name), " ", h("span", { class: "muted" }, t("overview.since"), " ", stamp(job.sinceTime)), h("div", { class: "buttons-of" }, forOne(job, "btn-quiet")));

/** @param {any} job @param {string} [look] */
function forOne({ name, labels, runId, state }, look = "btn-plain") {
  return [
    openOf(runId, name, look),
    button("run", name, [labels], { look, "data-action": "run", "data-job": name }),
    state === "enabled" && button("pause", name, [labels], { look, "data-action": "pause", "data-job": name }),
    button("silence", name, [labels], { look, "data-all": "silence", "data-name": name }),
  ];
}

/** Beyond what one call takes nothing is offered: it would be for some of them. @param {Alike} group @param {string} key */
function forAll(group, key) {
  const { jobs, names, count, result } = group;
  const open = openOf(result.runId, result.jobName ?? jobs[0].name);
  if (names.length < count) return [open];
  const labels = jobs.map((/** @type {any} */ job) => job.labels);
  return [open, ...["run", "pause", "silence"].map((action) => button(action, `${t("overview.jobs", { n: count })}, ${errorOf(group)}`, labels, { "data-all": action, "data-group": key }))];
}

/** @param {string} runId @param {string} name of its job @param {string} [look] */
const openOf = (runId, name, look = "btn-plain") => h("a", { class: `btn ${look}`, "data-key": "open", href: runUrl(runId), "aria-label": `${t("overview.open.run")}: ${name}` }, icon("file-text"), " ", t("overview.open.run"));

/** @type {Record<string, [string, string, string]>} glyph, text, whose right it takes */
const LOOKS = { run: ["play-circle-fill", "overview.again", "run"], pause: ["pause-fill", "action.pause", "pause"], silence: ["bell-slash", "silence.make", "pause"] };

/** @param {string} action @param {string} what @param {Record<string, string>[]} labels of each job @param {Record<string, string>} more */
function button(action, what, labels, { look = "btn-plain", ...more }) {
  const [glyph, text, right] = LOOKS[action];
  const off = labels.map((one) => offered(right, one)).find(({ disabled }) => disabled);
  return h("button", { type: "button", class: `btn ${look}`, "data-key": action, "aria-label": `${t(text)}: ${what}`, ...more, ...off }, icon(glyph), " ", t(text));
}

/** @type {Record<string, (names: string[]) => Promise<boolean>>} */
const ON_ALL = {
  run: runAll,
  pause: (names) => actOnAll("pause", names.map((name) => ({ name, running: [], revision: 0, state: "enabled" }))),
  silence: silenceAll,
};

/** Those that fail stay asked for in the dialog. @param {string[]} names @returns {Promise<boolean>} whether a run was asked for */
async function runAll(names) {
  const problem = h("div", { role: "alert" }), title = t("overview.again"), once = onlyOnce();
  const body = [h("p", {}, t("overview.ask.again", { n: names.length })), h("p", { class: "named" }, names.slice(0, 10).join(", "), names.length > 10 && ` ${t("ask.more", { n: names.length - 10 })}`), problem];
  let left = names;
  await askFor({ title, body, action: title, send: async () => {
    fill(problem);
    const asked = left.length, refused = await runEach(left, once);
    left = [...refused.keys()];
    if (left.length < asked) toast(t("overview.done.again", { n: asked - left.length }));
    for (const [name, error] of [...refused].slice(0, 5)) {
      if (problem.isConnected) problem.append(said(`${name}${t("colon")}${saidOnce(error)}`, "bad"));
      else toast(`${name}${t("colon")}${error.message}`, "bad");
    }
    return left.length ? null : [];
  } });
  return left.length < names.length;
}

/** Some at a time. @param {string[]} names @param {import("../once.js").Once} once @returns {Promise<Map<string, ApiError>>} those of which no run was asked for, and why */
async function runEach(names, once) {
  const waiting = [...names], refused = new Map();
  const work = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      await send("POST", `${jobPath(name)}/run`, { body: {}, headers: once(name) }).catch((error) => {
        if (!(error instanceof ApiError)) throw error;
        refused.set(name, error);
      });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return refused;
}
