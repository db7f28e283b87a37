/** Whether all is well, on every page: a banner where nothing fires, a mark in the bar, in the title and in the tab's icon. */
import { get } from "./api.js";
import { byId, h, icon } from "./dom.js";
import { on, status } from "./live/live.js";
import { redraw } from "./redraw.js";
import { Refresher } from "./refresher.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";

const POLL_MS = 5000;
/** Where one sees to it. @type {Record<string, string>} */
const PLACES = { none: "workers", never: "workers", drained: "workers", refusing: "workers", away: "system", full: "system", unready: "system" };

/** @typedef {{etcd: string, sinceMs: number | null, fires?: {state: string, sinceMs: number | null, why: string | null}}} Health */

/** How many jobs fail; null: not known. @type {number | null} */
let failing = null;
let show = () => {};

export function startMark() {
  const title = document.title;
  show = () => {
    const halt = haltIn(status.health);
    showHalt(halt);
    showMark(halt, title);
  };
  const polled = new Refresher(async () => markFailing(await get("/overview").then(({ jobs }) => jobs.failing, () => failing)), POLL_MS);
  on(["status"], () => show());
  on(["failing"], ({ count }) => markFailing(count));
  on(["poll"], () => polled.soon()); // no stream tells it
}

/** @param {number | null} count how many jobs fail */
export function markFailing(count) {
  failing = count;
  show();
}

/** Why nothing fires, and since when; null: something does, or nobody knows. @param {Health | null} health */
function haltIn(health) {
  if (!health) return null;
  if (health.etcd !== "ok") return { why: health.etcd, sinceMs: health.sinceMs, said: null };
  const { state, sinceMs, why } = health.fires ?? { state: "ok", sinceMs: null, why: null };
  if (!PLACES[state]) return null;
  return { why: state === "none" && sinceMs === null ? "never" : state, sinceMs, said: state === "refusing" ? why : null };
}

/** @param {ReturnType<typeof haltIn>} halt */
function showHalt(halt) {
  redraw(byId("halt"), halt && h("div", { class: "halt" }, icon("exclamation-triangle-fill"), h("p", {},
    h("strong", {}, t(`halt.${halt.why}`)), halt.said && ` ${halt.said}.`,
    halt.sinceMs !== null && h("span", {}, " ", t("halt.since"), " ", stamp(halt.sinceMs), " (", stamp(halt.sinceMs, { as: "ago" }), ")."),
    " ", t(`halt.${halt.why}.do`), " ", h("a", { href: `/${PLACES[halt.why]}` }, t(`nav.${PLACES[halt.why]}`)))));
}

/** @param {ReturnType<typeof haltIn>} halt @param {string} title */
function showMark(halt, title) {
  const isBad = halt !== null || Boolean(failing);
  const text = halt ? t(halt.why === "unready" ? "mark.unready" : "mark.halted") : t("mark.failing", { n: failing ?? 0 });
  const mark = byId("mark");
  mark.hidden = !isBad;
  redraw(mark, icon("exclamation-triangle-fill"), " ", text);
  document.title = isBad ? `(${halt ? "!" : failing}) ${title}` : title;
  const link = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  const { icon: calm, iconBad } = link.dataset;
  const wanted = isBad ? iconBad : calm;
  if (wanted && link.getAttribute("href") !== wanted) link.href = wanted;
}
