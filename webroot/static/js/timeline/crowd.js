/** The jobs of a crowded minute, or of its hour: all of them, page by page, those chosen that had better be spread. */
import { ApiError, get, send } from "../api.js";
import { now } from "../clock.js";
import { byId, fill, h, hold, icon, isHeld } from "../dom.js";
import { duration } from "../durations.js";
import { jobUrl } from "../links.js";
import { said } from "../notices.js";
import { Pager } from "../pager.js";
import { number, t } from "../text.js";
import { fullestOf, waitWords } from "../waiting.js";
import { parts, zoneFor } from "../zones.js";
import { head, opened, table, zoneOf } from "./panel.js";
import { hourLabel, whenOf } from "./pressure.js";
import { preview } from "./spread.js";

const MINUTE = 60_000;
const HOUR = 3_600_000;
const A_PAGE = 100;

/** @param {number} from @param {number} to @param {Record<string, string>} query @param {() => void} saved */
export async function showCrowd(from, to, query, saved) {
  const place = byId("crowd"), crowd = new Crowd(place, { from, to: Math.min(to, from + HOUR) }, query, saved);
  fill(place, h("div", { role: "alert" }, h("p", { class: "muted" }, t("timeline.looking"))));
  await crowd.tried(() => crowd.begin());
}

class Crowd {
  /** @param {HTMLElement} place @param {{from: number, to: number}} hour @param {Record<string, string>} query @param {() => void} saved */
  constructor(place, hour, query, saved) {
    this.isOpen = opened(place);
    this.place = place;
    this.hour = hour;
    this.query = query;
    this.saved = saved;
    this.isWide = false;
    this.by = "minute";
    /** The minute in which most is to be mended. @type {import("../waiting.js").Span | null} */
    this.peak = null;
    this.slots = 0;
    /** Those to be spread, also of other pages. @type {Set<string>} */
    this.chosen = new Set();
    /** @type {any} as GET /forecast/jobs says */
    this.found = null;
    this.asked = Symbol("nothing");
    this.pager = new Pager(t("spread.pages"), () => void this.tried(() => this.turn()));
  }

  get span() {
    return this.peak && !this.isWide ? { from: this.peak.time, to: this.peak.time + MINUTE } : this.hour;
  }

  async begin() {
    const { items, slots } = await get("/forecast", { query: { q: this.query.q, ...this.hour, buckets: 60 } });
    this.peak = fullestOf(items.filter((/** @type {any} */ { time }) => time + MINUTE > now()));
    this.slots = slots;
    await this.look();
  }

  /** The first page of the span, with what is suggested chosen. */
  async look() {
    this.pager.reset();
    if (!(await this.read())) return;
    this.chosen = new Set(this.found.suggested);
    this.list();
  }

  async turn() {
    if (await this.read()) this.list();
  }

  /** Whether this is what was asked for last. */
  async read() {
    const asked = (this.asked = Symbol("asked"));
    const found = await get("/forecast/jobs", { query: { q: this.query.q, ...this.span, cursor: this.pager.cursor, limit: A_PAGE } });
    if (asked === this.asked) this.found = found;
    return asked === this.asked;
  }

  /** @param {() => Promise<void>} act */
  async tried(act) {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.isOpen()) fill(this.place.querySelector("[role=alert]") ?? this.place, said(error.message, "bad"));
    }
  }

  list() {
    if (!this.isOpen()) return;
    const { found, peak, slots, chosen, place } = this;
    const title = `${peak && !this.isWide ? hourLabel(whenOf(peak.time), found.fires, peak.slots) : `${spanOf(this.hour)}: ${t("timeline.fires", { n: found.fires })}`}, ${t("timeline.total.job", { n: found.total })}`;
    const count = h("span", { class: "chosen", "aria-live": "polite" });
    const counted = () => fill(count, t("spread.chosen", { n: chosen.size }));
    const choose = (/** @type {string[]} */ names) => {
      this.chosen = new Set(names);
      this.list();
    };
    const by = /** @type {HTMLSelectElement} */ (h("select", { class: "form-control", id: "spread-by" }, [["minute", t("spread.minute")], ...[5, 15, 30, 60].map((minutes) => [String(minutes * 60), t("spread.jitter", { n: minutes })])]
      .map(([value, text]) => h("option", { value, selected: value === this.by }, text))));
    const look = h("button", { type: "submit", class: "btn btn-primary" }, icon("shuffle"), " ", t("spread.look"));
    const form = h("form", { class: "spread-form" }, count, h("label", { for: "spread-by" }, t("spread.how")), by, look,
      h("button", { type: "button", class: "btn btn-plain", onclick: () => choose(found.suggested) }, t("spread.suggested", { n: found.suggested.length })),
      h("button", { type: "button", class: "btn btn-plain", onclick: () => choose([]) }, t("spread.nobody")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      this.by = by.value;
      if (!this.chosen.size) return fill(problem, said(t("spread.none"), "warn"));
      if (isHeld(look)) return;
      hold(look, true);
      await this.tried(() => this.preview());
      hold(look, false);
    });
    const problem = h("div", { role: "alert" });
    const box = (/** @type {any} */ { name, maySpread }) => maySpread && h("input", { type: "checkbox", checked: chosen.has(name), "aria-label": t("timeline.pick", { name }), onchange: (/** @type {any} */ { target }) => {
      if (target.checked) chosen.add(name);
      else chosen.delete(name);
      counted();
    } });
    const rows = found.items.map((/** @type {any} */ one) => h("tr", {}, h("td", {}, box(one)), h("td", {}, h("a", { class: "row-name", href: jobUrl(one.name) }, one.name)),
      h("td", {}, one.words, zoneOf(one)), h("td", { class: "num" }, number(one.fires)), h("td", { class: "num" }, one.usualMs ? duration(one.usualMs) : "–"), h("td", { class: "num" }, number(one.slots))));
    const columns = ["", t("column.name"), t("column.schedule"), t("timeline.column.fires"), t("timeline.column.usual"), t("timeline.column.slots")];
    const which = (/** @type {boolean} */ isWide, /** @type {string} */ text) => h("button", { type: "button", "aria-pressed": String(this.isWide === isWide), onclick: () => {
      this.isWide = isWide;
      void this.tried(() => this.look());
    } }, text);
    counted();
    fill(place, head(title, place), problem, peak && !this.isWide && h("p", {}, waitWords(peak.waitMs, slots)),
      peak && h("div", { class: "segments", role: "group", "aria-label": t("spread.of") }, which(false, whenOf(peak.time)), which(true, spanOf(this.hour))),
      found.items.some((/** @type {any} */ one) => one.maySpread) && [form, h("p", { class: "sub" }, t("spread.why"))],
      table(title, columns, rows, 3), this.pager.buttons(found.nextCursor));
    place.querySelector("h2")?.focus();
  }

  async preview() {
    const wish = this.by === "minute" ? { by: "minute" } : { by: "jitter", jitterSeconds: Number(this.by) };
    const told = await send("POST", "/forecast/spread", { body: { names: [...this.chosen], ...wish, from: this.peak?.time ?? this.hour.from } });
    if (this.isOpen()) preview(this.place, told, { wish, back: () => this.list(), saved: this.saved, tried: (act) => this.tried(act) });
  }
}

/** "02:00–03:00" @param {{from: number, to: number}} hour */
const spanOf = ({ from, to }) => `${whenOf(from)}–${parts(to, zoneFor()).time.slice(0, 5)}`;
