/** Who did what, the newest first; whether what is kept of it holds together. */
import { get } from "../api.js";
import { byId, h, hold, icon, isHeld } from "../dom.js";
import { grid } from "../grid.js";
import { isForMe } from "../me.js";
import { instant, showTimes, typed } from "../moments.js";
import { announce, note } from "../notices.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { onChange } from "../zones.js";
import { details } from "./details.js";

const TIMES = ["from", "to"];
const NAMES = ["who", "action", "object", "outcome", ...TIMES];
/** More pages of a verification than any audit has: nothing loops for ever. */
const MOST_PAGES = 100_000;

export function start() {
  if (!isForMe()) return Promise.resolve();
  const form = /** @type {HTMLFormElement} */ (byId("filters"));
  const pager = new Pager(t("pager.label"), () => void list.now());
  const list = new Refresher((signal) => load(pager, signal, () => list.later()));
  let typing = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    const search = new URLSearchParams({ ...query(), [target.name]: TIMES.includes(target.name) ? typed(target.value) : target.value.trim() });
    NAMES.filter((name) => !search.get(name)).forEach((name) => search.delete(name));
    window.history.replaceState(null, "", search.size ? `/audit?${search}` : "/audit");
    pager.reset();
    window.clearTimeout(typing);
    typing = window.setTimeout(() => void list.now(), 200);
  });
  for (const name of NAMES.filter((one) => !TIMES.includes(one))) form.elements[name].value = query()[name];
  showTimes(form, query());
  onChange(() => showTimes(form, query()));
  byId("verify").addEventListener("click", () => void verify());
  return list.now();
}

function query() {
  const search = new URLSearchParams(window.location.search);
  return Object.fromEntries(NAMES.map((name) => [name, search.get(name) ?? ""]));
}

/** As the call takes it. */
function asked() {
  const { from, to, ...others } = query();
  return { ...others, from: instant(from), to: instant(to) };
}

const COLUMNS = [
  { key: "when", draw: (/** @type {any} */ one) => stamp(one.ms) },
  { key: "who", draw: (/** @type {any} */ one) => [h("strong", {}, one.who), h("div", { class: "sub" }, [one.via && one.via !== "nobody" && word("via", one.via), one.address].filter(Boolean).join(" · "))], className: "wraps" },
  { key: "action", draw: (/** @type {any} */ one) => h("code", {}, one.action) },
  { key: "object", draw: (/** @type {any} */ one) => one.object, className: "wraps" },
  { key: "outcome", draw: (/** @type {any} */ one) => h("span", { class: one.outcome === "done" ? "tone-ok" : "tone-bad" }, word("outcome", one.outcome)) },
  { key: "details", draw: details, className: "wraps" },
];

/** @param {Pager} pager @param {AbortSignal} signal @param {() => void} later */
async function load(pager, signal, later) {
  try {
    const wanted = JSON.stringify(query());
    const { items, nextCursor, warnings = [] } = await get("/audit", { query: { ...asked(), cursor: pager.cursor, limit: 50 }, signal });
    if (wanted !== JSON.stringify(query())) return; // somebody types: others are asked for in a moment
    redraw(byId("entries"), items.length ? h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": t("title.audit") },
      grid(t("title.audit"), COLUMNS, items, "auto stack", ({ hash }) => hash)) : h("p", { class: "empty" }, icon("info-circle"), " ", t(nextCursor ? "audit.none.here" : "audit.none")), pager.buttons(nextCursor));
    note(byId("problem"), warnings.join("; ") || null, "info");
    if (warnings.length) later();
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
    if (error.mayPass) later();
  }
  byId("entries").setAttribute("aria-busy", "false");
}

/** All of it, page by page. */
async function verify() {
  const button = byId("verify");
  if (isHeld(button)) return;
  hold(button, true);
  const chains = /** @type {any[]} */ ([]);
  try {
    let cursor = null;
    for (let page = 0; page < MOST_PAGES; page++) {
      const told = await get("/audit/verify", { query: { cursor } });
      chains.push(...told.items);
      cursor = told.nextCursor;
      if (!cursor) break;
    }
    const broken = chains.filter(({ problem }) => problem);
    const text = broken.length ? broken.map(({ chain, problem }) => `${chain}: ${problem}`).join("; ") : t("audit.whole", { n: chains.reduce((sum, { entries }) => sum + entries, 0) });
    note(byId("verified"), text, broken.length ? "bad" : "info");
    announce(text);
  } catch (error) {
    note(byId("verified"), error.message);
  } finally {
    hold(button, false);
  }
}
