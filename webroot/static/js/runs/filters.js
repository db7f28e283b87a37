/** The filters of the page of runs. They are what the address says; a change is written there first. */
import { get } from "../api.js";
import { byId, delegate, h } from "../dom.js";
import { showTimes, typed } from "../moments.js";
import { redraw } from "../redraw.js";
import { number, t, word } from "../text.js";
import { badge, VERDICTS } from "../verdicts.js";
import { onChange } from "../zones.js";
import { keepQuery, query } from "./query.js";

const STATUSES = ["running", ...VERDICTS];
const COUNTED_HOURS = { "24h": 24, "7d": 168 };
/** The counts are made each minute. */
const COUNT_EVERY_MS = 30_000;
const TYPING_MS = 250;

export class Filters {
  /** @param {() => void} changed */
  constructor(changed) {
    this.form = /** @type {HTMLFormElement} */ (byId("filters"));
    this.changed = changed;
    this.counted = { key: "", atMs: -Infinity, total: /** @type {Record<string, number>} */ ({}) };
    this.typing = 0;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", ({ target }) => {
      const field = /** @type {HTMLInputElement} */ (target);
      this.set(["from", "to"].includes(field.name) ? { [field.name]: typed(field.value), period: "" } : { [field.name]: field.value.trim() }, TYPING_MS);
    });
    delegate(this.form, "click", "[data-status]", ({ dataset: { status } }) => this.toggle(status));
    delegate(this.form, "click", "[data-period]", ({ dataset: { period } }) => this.setPeriod(period));
    delegate(this.form, "click", "[data-group]", ({ dataset: { group } }) => this.set({ group, open: "" }));
    byId("clear").addEventListener("click", () => {
      keepQuery({ group: query().group });
      this.show();
      this.changed();
    });
    window.addEventListener("popstate", () => this.show());
    onChange(() => showTimes(this.form, query()));
    this.show();
  }

  /** @param {Record<string, string>} some of the query @param {number} [waitMs] until it counts */
  set(some, waitMs = 0) {
    keepQuery({ ...query(), ...some });
    this.draw();
    window.clearTimeout(this.typing);
    this.typing = window.setTimeout(() => this.changed(), waitMs);
  }

  /** Takes one filter away. @param {string} name */
  drop(name) {
    this.set({ [name]: "" });
    this.show();
    if (!byId("named").contains(document.activeElement)) /** @type {HTMLElement} */ (byId("named").querySelector("button") ?? this.form.elements.q).focus();
  }

  /** @param {string} status */
  toggle(status) {
    const chosen = new Set(query().status.split(",").filter(Boolean));
    if (!chosen.delete(status)) chosen.add(status);
    this.set({ status: STATUSES.filter((one) => chosen.has(one)).join(",") });
  }

  /** @param {string} period */
  setPeriod(period) {
    byId("between").hidden = period !== "own";
    this.set({ period: period === "own" ? "" : period, from: "", to: "" });
    if (period === "own") this.form.elements.from.focus();
    this.show();
  }

  /** Fields and buttons as the address has it. */
  show() {
    const wanted = query();
    for (const name of ["q", "worker", "label", "trigger"]) {
      const field = this.form.elements[name];
      if (field !== document.activeElement) field.value = wanted[name];
    }
    showTimes(this.form, wanted);
    if (wanted.from || wanted.to) byId("between").hidden = false;
    if (wanted.period) byId("between").hidden = true;
    byId("more").toggleAttribute("open", Boolean(wanted.worker || wanted.label || wanted.trigger) || byId("more").hasAttribute("open"));
    this.draw();
  }

  draw() {
    const wanted = query();
    const isOwn = !byId("between").hidden;
    const chosen = wanted.status.split(",");
    for (const button of this.form.querySelectorAll("[data-period]")) {
      const { period } = /** @type {HTMLElement} */ (button).dataset;
      button.setAttribute("aria-pressed", String(period === "own" ? isOwn : !isOwn && period === wanted.period));
    }
    for (const button of this.form.querySelectorAll("[data-group]")) button.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (button).dataset.group === wanted.group));
    const { total } = this.counted;
    redraw(byId("statuses"), STATUSES.map((status) => h("button", { type: "button", class: "chip", "data-key": status, "data-status": status, "aria-pressed": String(chosen.includes(status)) },
      badge(status), total[status] !== undefined && h("span", { class: "count" }, number(total[status])))));
    const { group: _, ...others } = wanted;
    byId("clear").hidden = !Object.values(others).some(Boolean);
    const named = ["job", "error", "worker", "label", "trigger"].map((name) => [name, wanted[name]]).filter(([, value]) => value);
    redraw(byId("named"), named.map(([name, value]) => h("span", { class: "label", "data-key": name }, `${t(`runs.named.${name}`)} `, h("strong", {}, name === "trigger" ? word("trigger", value) : value), " ",
      h("button", { type: "button", class: "btn btn-quiet btn-icon", "aria-label": t("runs.drop", { what: value }), onclick: () => this.drop(name) }, "×"))));
  }

  /** How many there were, as the counters of hours have it; where these cannot say it, nothing is counted. @param {AbortSignal} signal */
  async count(signal) {
    const { period, job, status: _, group: __, ...others } = query();
    const hours = COUNTED_HOURS[period];
    const key = hours && !Object.values(others).some(Boolean) ? `${period} ${job}` : "";
    if (key === this.counted.key && (!key || performance.now() - this.counted.atMs < COUNT_EVERY_MS)) return;
    const found = key ? await get("/statistics", { query: { hours, job }, signal }).catch(() => null) : null;
    if (signal.aborted) return;
    this.counted = { key, atMs: performance.now(), total: found?.total ?? {} };
    this.draw();
  }
}
