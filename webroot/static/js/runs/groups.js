/** What did not go well, counted by its error. What is open stands in the address. */
import { get } from "../api.js";
import { byId, h, icon } from "../dom.js";
import { jobUrl, runUrl } from "../links.js";
import { uncoloured } from "../printed.js";
import { redraw } from "../redraw.js";
import { stamp } from "../stamp.js";
import { number, t } from "../text.js";
import { badge, causeOf } from "../verdicts.js";
import { asked, query } from "./query.js";

const OPEN = "open";

/** @param {AbortSignal} signal @returns {Promise<any>} what the manager has said */
export async function loadGroups(signal) {
  const wanted = query();
  const answer = await get("/runs", { query: { ...asked(wanted), group: "error" }, signal });
  if (JSON.stringify(wanted) === JSON.stringify(query())) draw(answer);
  return answer;
}

/** @param {any} answer */
function draw({ groups, records, isComplete, lookedTime }) {
  const open = new Set(new URLSearchParams(window.location.search).getAll(OPEN));
  const counted = h("p", { class: "muted" }, t("runs.counted", { n: records }), !isComplete && [" ", t("runs.counted.newest"), " ", stamp(lookedTime, { as: "long" })]);
  redraw(byId("runs"), groups.length ? [counted, ...groups.map((/** @type {any} */ group) => groupOf(group, open.has(group.error)))] : h("p", { class: "empty" }, icon("check-circle-fill"), " ", t("runs.groups.none")));
}

/** @param {any} group @param {boolean} isOpen */
function groupOf(group, isOpen) {
  const { error, count, jobs, jobCount, firstTime, lastTime, lastLine, runs, status } = group;
  const all = new URLSearchParams([...new URLSearchParams(window.location.search)].filter(([name]) => ![OPEN, "group", "cursor"].includes(name)));
  all.set("error", error);
  const rest = jobCount - jobs.length;
  return h("details", { class: "group-of", "data-key": error, "data-error": error, open: isOpen, ontoggle: keepOpen },
    h("summary", {}, h("span", { class: "group-count" }, number(count)), " ",
      h("span", { class: "group-what" }, badge(status), " ", h("strong", {}, causeOf(group)), " ",
        h("span", { class: "sub group-jobs" }, jobCount === 1 ? jobs[0] : t("runs.of.jobs", { n: jobCount })), " ",
        lastLine && h("span", { class: "sub clip last-line" }, jobCount > 1 && `${runs[0].jobName}: `, h("code", {}, uncoloured(lastLine)))), " ",
      h("span", { class: "sub group-when" }, stamp(lastTime, { as: "ago" }))),
    h("div", { class: "group-body" },
      h("p", { class: "sub" }, t("runs.between"), " ", stamp(firstTime, { as: "long" }), " – ", stamp(lastTime, { as: "long" })),
      h("p", {}, jobs.flatMap((/** @type {string} */ job, /** @type {number} */ at) => [at > 0 && ", ", h("a", { href: jobUrl(job) }, job)]), rest > 0 && ` ${t("ask.more", { n: rest })}`),
      h("ul", { class: "plain-list" }, runs.map((/** @type {any} */ run) => h("li", { "data-key": run.id, "data-row": true }, h("a", { href: runUrl(run.id), "data-row-link": true }, stamp(run.planTime, { as: "long" }), ` ${run.jobName}`), run.worker && ` ${t("ask.on", { worker: run.worker })}`))),
      h("a", { class: "btn btn-plain", href: `/runs?${all}` }, t("runs.all.of", { n: count }))));
}

/** @param {Event} event of a fold */
function keepOpen({ target }) {
  const { open, dataset } = /** @type {HTMLDetailsElement} */ (target);
  const address = new URL(window.location.href);
  const others = address.searchParams.getAll(OPEN).filter((one) => one !== dataset.error);
  address.searchParams.delete(OPEN);
  [...others, ...(open ? [dataset.error] : [])].forEach((one) => address.searchParams.append(OPEN, one));
  window.history.replaceState(window.history.state, "", address);
}
