/** When does it fire? What is overdue, the fires to come with who takes them, its days, and the changes of its clocks. */
import { get, jobPath } from "../../api.js";
import { now } from "../../clock.js";
import { byId, h, icon } from "../../dom.js";
import { grid } from "../../grid.js";
import { runUrl } from "../../links.js";
import { said } from "../../notices.js";
import { redraw } from "../../redraw.js";
import { stamp } from "../../stamp.js";
import { language, number, t } from "../../text.js";
import { badge, whyApart, whyOf } from "../../verdicts.js";
import { full } from "../../zones.js";
import { scrolls, takersOf } from "../fires.js";

const DAY_MS = 86_400_000;
const DAYS = 42;

/** @param {string} name @param {any} job null: it has been deleted @param {AbortSignal} signal @returns {Promise<{warnings: string[]}>} */
export async function showSchedule(name, job, signal) {
  const path = jobPath(name);
  const zone = job?.spec?.timezone;
  const [{ recent, upcoming, warnings }, calendar, { waiting = [] }] = await Promise.all([
    get(`${path}/fires`, { signal }), job?.spec ? get(`${path}/calendar`, { query: { days: DAYS }, signal }) : null,
    get("/runs", { query: { job: name, limit: 1 }, signal }),
  ]);
  const last = upcoming.at(-1)?.ms;
  const { items } = last ? await get(`${path}/fires`, { query: { from: now(), to: last, limit: upcoming.length }, signal }) : { items: [] };
  const known = new Map(items.map((/** @type {any} */ fire) => [fire.runId ?? fire.planTime, fire]));
  const asked = waiting.filter((/** @type {any} */ run) => run.planTime > now());
  redraw(byId("overdue"), overdue(recent.filter((/** @type {any} */ fire) => fire.verdict === "waiting"), zone));
  showUpcoming([...upcoming.map((/** @type {any} */ fire) => ({ ...fire, ...known.get(fire.ms) })), ...asked.map(askedFor)]
    .sort((one, other) => one.ms - other.ms), zone, job);
  redraw(byId("calendar"), calendar ? [month(calendar), clocks(calendar)].flat() : h("p", { class: "muted" }, t("job.upcoming.deleted")));
  return { warnings };
}

/** A run that waits for its time: somebody asked for it, or it is the next one of a job that runs after its last. @param {any} run */
const askedFor = ({ id, planTime, by }) => ({ ms: planTime, runId: id, by, isAsked: true });

/** What is due and was not decided, and why. @param {any[]} fires @param {string} [zone] */
function overdue(fires, zone) {
  return fires.map((fire) => {
    const many = t("schedule.overdue", { n: fire.count ?? 1 });
    const until = fire.rangeEndTime ? [" … ", stamp(fire.rangeEndTime, { zone })] : [];
    return said([h("strong", {}, many), " ", stamp(fire.planTime, { zone }), ...until, fire.reason && [t("colon"), ...whyApart(fire)]].flat(), "warn");
  });
}

/** @param {any[]} fires @param {string | undefined} zone @param {any} job */
function showUpcoming(fires, zone, job) {
  const [first, ...others] = fires.map((fire) => (fire.open !== false && !fire.takers?.length && fire.verdict ? whyOf(fire) : ""));
  const nobody = first && others.length && others.every((one) => one === first) ? first : "";
  const columns = [
    { key: "planned", draw: (/** @type {any} */ fire) => [stamp(fire.ms, { zone }), fire.isAsked && h("div", { class: "sub" }, h("a", { href: runUrl(fire.runId) }, fire.by ? t("schedule.asked", { by: fire.by }) : t("schedule.claimed")))] },
    { key: "in", draw: (/** @type {any} */ fire) => stamp(fire.ms, { as: "until" }) },
    { key: "takers", draw: (/** @type {any} */ fire) => taker(fire, nobody), className: "wraps" },
  ];
  redraw(byId("upcoming"), job?.spec?.after && fires.length > 0 && h("p", { class: "sub" }, none(job)), nobody && h("p", { class: "note note-warn" }, icon("exclamation-triangle-fill"), h("div", {}, whyApart(fires[0]))),
    fires.length ? scrolls(t("job.upcoming"), grid(t("job.upcoming"), columns, fires, "auto", ({ ms, runId }) => runId ?? ms)) : h("p", { class: "muted" }, none(job)));
}

/** Who would take it, or why it will not run. @param {any} fire @param {string} told why nobody can take any of them, as it stands above */
function taker({ open, takers, note, isAsked, ...fire }, told) {
  if (isAsked) return null;
  const nobody = fire.verdict && whyOf(fire);
  const who = open === false ? badge("closed") : takers?.length ? takersOf(takers) : nobody && h("span", { class: "tone-warn" }, nobody === told ? t("job.nobody") : whyApart(/** @type {any} */ (fire)));
  return [who, note && h("div", { class: "sub tone-warn" }, note)];
}

/** Why there are none to come. @param {any} job */
function none(job) {
  if (!job) return t("job.upcoming.deleted");
  if (job.state === "paused") return t("job.upcoming.paused");
  return job.spec?.after ? t("job.upcoming.after", { words: job.words }) : t("job.upcoming.none");
}

/** Six weeks, a row each, as many fires as each day has. @param {any} calendar */
function month({ timezone, days }) {
  const dayOf = (/** @type {string} */ date) => new Date(`${date}T00:00:00Z`);
  const name = (/** @type {Date} */ day, /** @type {any} */ style) => new Intl.DateTimeFormat(language, { timeZone: "UTC", ...style }).format(day);
  const first = dayOf(days[0].date);
  const before = (first.getUTCDay() + 6) % 7; // weeks begin with Monday
  const weekdays = Array.from({ length: 7 }, (_, at) => name(new Date(first.getTime() + (at - before) * DAY_MS), { weekday: "short" }));
  const [most, fewest] = [Math.max, Math.min].map((of) => of(...days.slice(1).flatMap((/** @type {any} */ day) => day.fires || [])));
  const cells = [...Array.from({ length: before }, () => null), ...days].slice(0, DAYS);
  const cell = (/** @type {any} */ day) => {
    if (!day) return h("td", {});
    const many = day.isMore && day.fires ? t("calendar.least", { n: number(day.fires) }) : number(day.fires);
    const date = dayOf(day.date);
    const isFirst = day === days[0] || date.getUTCDate() === 1;
    return h("td", { class: day.fires ? `has-fires level-${most === fewest ? 1 : Math.ceil((3 * day.fires) / most)}` : day.closed ? "is-closed" : "", title: `${day.date}: ${day.fires ? t("calendar.fires", { n: day.fires }) : t(day.closed ? "calendar.closed" : "calendar.none")}` },
      h("div", {}, h("span", { class: "day-of" }, name(date, isFirst ? { day: "numeric", month: "short" } : { day: "numeric" })), " ",
        day.fires ? h("span", { class: "fires-of" }, many) : day.closed > 0 && h("span", { class: "fires-of" }, icon("slash-circle"), h("span", { class: "visually-hidden" }, t("calendar.closed")))));
  };
  const weeks = Array.from({ length: Math.ceil(cells.length / 7) }, (_, at) => h("tr", {}, cells.slice(7 * at, 7 * at + 7).map(cell)));
  const says = t("calendar.about", { zone: timezone });
  return [h("p", { class: "sub" }, says), h("table", { class: "month" }, h("caption", { class: "visually-hidden" }, says),
    h("thead", {}, h("tr", {}, weekdays.map((day) => h("th", { scope: "col" }, day)))), h("tbody", {}, weeks))];
}

/** What the next changes of its clocks do to its fires. @param {any} calendar */
function clocks({ timezone, clocks: changes }) {
  if (!changes.length) return [];
  const items = changes.map((/** @type {any} */ { ms, beforeS, afterS, fires }) => {
    const local = full(ms, timezone);
    const by = t(afterS > beforeS ? "clocks.ahead" : "clocks.back", { minutes: Math.abs(afterS - beforeS) / 60 });
    const notes = fires.map((/** @type {any} */ fire) => h("div", { class: "sub tone-warn" }, fire.note));
    return h("li", { "data-key": ms }, h("div", {}, h("strong", {}, local), ": ", by), notes.length ? notes : h("div", { class: "sub" }, t("clocks.untouched")));
  });
  return [h("h3", {}, t("clocks.title", { zone: timezone })), h("ul", { class: "clocks" }, items)];
}
