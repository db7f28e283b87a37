/** The list of jobs. */
import { ApiError, get } from "../api.js";
import { mayAnything } from "../caller.js";
import { everySecond, now } from "../clock.js";
import { byId, delegate, fill, h, icon } from "../dom.js";
import { on, status } from "../live/live.js";
import { announce, note } from "../notices.js";
import { turned } from "../pager.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { t } from "../text.js";
import { takers } from "../workers/takers.js";
import { isOld, upToDate } from "../written.js";
import { Picked } from "./bulk.js";
import { startChips } from "./chips.js";
import { startMenus } from "./menu.js";
import { NO_FILTERS, onBack, query, setQuery } from "./query.js";
import { startSorting } from "./sorting.js";
import { changeOf, JobTable } from "./table.js";

const WORKERS_EVERY_MS = 10_000;
/** Filters by what runs do: with a run, a job may come into the list or leave it. */
const BY_RUNS = ["running", "failing"];

export function start() {
  const table = new JobTable(document.querySelector("#jobs tbody"));
  const list = new Refresher((signal) => load(table, picked, signal, list));
  const picked = new Picked(table, () => changed(list));
  const workers = new Refresher((signal) => showHealthy(signal, () => workers.later()), WORKERS_EVERY_MS);
  startFilters(list);
  startMenus(table, () => changed(list));
  delegate(byId("pager"), "click", "[data-cursor]", ({ dataset: { cursor } }) => {
    if (cursor !== query().cursor) setQuery({ cursor }); // clicked twice before the page is there it is one step
    void list.now().then(() => turned(byId("jobs"), t(cursor ? "pager.another" : "pager.first")));
  });
  on(["again", "health"], () => { list.soon(); workers.soon(); });
  on(["jobs"], ({ all, names = [] }) => (all || matters(names, table)) && list.heard());
  on(["runs"], ({ jobs }) => {
    const isShown = Object.entries(jobs).filter(([name, heard]) => table.update(name, changeOf(heard))).length > 0;
    const mayBeOverwritten = list.isLoading && (isShown || table.jobs.length === 0); // by an answer that is older
    if (mayBeOverwritten || BY_RUNS.includes(query().state)) list.soon();
  });
  on(["workers"], () => workers.heard());
  everySecond(() => {
    const due = table.jobs.filter((job) => job.nextFire && job.nextFire.ms < now() - 500);
    // A first fire that waits is told a moment after it was due, and by no event.
    if (due.some((job) => !job.lastResult && !job.waiting)) list.heard();
    else if (due.length) list.soon();
  });
  if (window.location.search === "?search") byId("search").focus();
  return Promise.all([list.now(), workers.now()]);
}

/** The user has changed something: at once, and once more. @param {Refresher} list */
function changed(list) {
  list.heard();
  void list.now();
}

/** A saved job may belong into the list that is shown, or on a page of its own: on the first page one looks again. */
const matters = (names, table) => !query().cursor || names.some((name) => table.job(name));

/** @param {JobTable} table @param {Picked} picked @param {AbortSignal} signal @param {Refresher} list which loads it */
async function load(table, picked, signal, list) {
  const wanted = query();
  const element = byId("jobs");
  try {
    const ask = () => get("/jobs", { query: { ...wanted, limit: 50 }, signal });
    const page = await upToDate(ask, ({ items }) => !items.some(isOld));
    if (JSON.stringify(wanted) !== JSON.stringify(query())) return; // somebody types: others are asked for in a moment
    const known = page.warnings.length ? page.items.map((/** @type {any} */ job) => withWhatIsKnown(job, table.job(job.name))) : page.items;
    table.show(known, (name) => picked.jobs.has(name));
    picked.draw(page.total ?? null);
    note(byId("problem"), page.warnings.join("; ") || null, "warn");
    if (page.warnings.length) list.later();
    showTotal(page, wanted);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
    if (error.mayPass) list.soon();
  } finally {
    element.setAttribute("aria-busy", "false");
  }
}

/** Without the log store there are no results in the answer: those shown before stay. @param {any} job @param {any} shown */
function withWhatIsKnown(job, shown) {
  if (job.lastResult) return job;
  if (!shown?.lastResult) return { ...job, resultUnknown: true };
  return { ...job, lastResult: shown.lastResult, lastRun: shown.lastRun, recent: shown.recent };
}

/** @param {any} page @param {import("./query.js").Query} wanted */
function showTotal(page, wanted) {
  const filtered = Boolean(wanted.q || wanted.state || wanted.label.length);
  const total = page.total ?? (page.nextCursor || wanted.cursor ? null : page.items.length);
  const text = total === null ? "" : t(filtered ? "jobs.found" : "jobs.total", { n: total });
  if (byId("total").textContent !== text) {
    byId("total").textContent = text;
    announce(text);
  }
  const empty = byId("empty");
  empty.hidden = page.items.length > 0 || Boolean(page.nextCursor);
  redraw(empty, filtered ? nothingFound() : nothingYet());
  const pager = byId("pager");
  pager.hidden = !page.nextCursor && !wanted.cursor;
  redraw(pager,
    wanted.cursor && h("button", { type: "button", class: "btn btn-plain", "data-key": "first", "data-cursor": "" }, icon("chevron-left"), " ", t("pager.first")),
    page.nextCursor && h("button", { type: "button", class: "btn btn-plain", "data-key": "next", "data-cursor": page.nextCursor }, t("pager.next"), " ", icon("chevron-right")));
}

/** @returns {import("../dom.js").Child[]} */
const nothingFound = () => [h("p", {}, t("jobs.none.found")), h("button", { type: "button", class: "btn btn-plain", id: "clear-filters" }, icon("x-lg"), " ", t("jobs.filters.clear"))];

/** @returns {import("../dom.js").Child[]} */
function nothingYet() {
  return [
    h("p", {}, t("jobs.none")), mayAnything("editor") && h("p", {}, h("a", { class: "btn btn-primary", href: "/new" }, icon("plus-lg"), " ", t("jobs.first"))),
    mayAnything("editor") && h("p", {}, h("a", { href: "/crontab" }, t("title.crontab"))),
  ];
}

/** @param {AbortSignal} signal @param {() => void} later */
async function showHealthy(signal, later) {
  try {
    const { taking, live } = takers((await get("/workers", { signal })).items);
    if (["away", "unready"].includes(status.health?.etcd)) throw new ApiError(t("jobs.healthy.unknown")); // what is known is old
    fill(byId("healthy"), icon(taking ? "hdd-stack" : "exclamation-triangle-fill"), " ", t("workers.taking", { n: live, taking }));
    byId("healthy").classList.toggle("tone-bad", taking === 0);
  } catch (error) {
    if (signal.aborted) throw error;
    fill(byId("healthy"), icon("question-diamond-fill"), " ", t("jobs.healthy.unknown"));
    if (error.mayPass) later();
  }
}

/** @param {Refresher} list */
function startFilters(list) {
  const form = /** @type {HTMLFormElement} */ (byId("filters"));
  const show = () => {
    const { q, state } = query();
    if (form.elements.q !== document.activeElement) form.elements.q.value = q;
    showChips();
    form.querySelectorAll("[data-state]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.state === state)));
  };
  /** What the pager leads to belongs to what is not asked for any more. */
  const reload = () => { redraw(byId("pager")); void list.now(); };
  const showChips = startChips(() => { show(); reload(); });
  const showSort = startSorting(reload);
  let typing = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  delegate(form, "input", "[name=q]", ({ value }) => {
    setQuery({ q: value.trim() }, { typed: true });
    showChips();
    redraw(byId("pager"));
    window.clearTimeout(typing);
    typing = window.setTimeout(() => void list.now(), 200);
  });
  delegate(form, "change", "[name=label]", (field) => {
    const label = field.value.trim();
    field.value = "";
    if (label) setQuery({ label: [...new Set([...query().label, label])] });
    show();
    reload();
  });
  delegate(form, "click", "[data-state]", ({ dataset: { state } }) => {
    setQuery({ state });
    show();
    reload();
  });
  delegate(byId("empty"), "click", "#clear-filters", () => {
    setQuery(NO_FILTERS);
    byId("search").focus();
    form.elements.q.value = "";
    show();
    reload();
  });
  onBack(() => { form.elements.q.value = query().q; show(); showSort(); reload(); });
  show();
  showSort();
}
