/** Which fires one looks at: the newest, those of the last hour, day or week, or between any two instants. */
import { now } from "../clock.js";
import { fill, h } from "../dom.js";
import { t } from "../text.js";
import { MINE, parts } from "../zones.js";

const HOUR_MS = 3_600_000;
/** @type {Record<string, number>} */
const SPANS = { newest: 0, hour: HOUR_MS, day: 24 * HOUR_MS, week: 7 * 24 * HOUR_MS };
const NAME = "fires";

export class Range {
  /** @param {HTMLElement} box @param {() => void} changed */
  constructor(box, changed) {
    this.changed = changed;
    /** `newest`, `hour`, `day`, `week`, or `<ms>-<ms>`. */
    this.chosen = new URLSearchParams(window.location.search).get(NAME) ?? "newest";
    if (!Object.hasOwn(SPANS, this.chosen) && !this.custom) this.chosen = "newest";
    const button = (/** @type {string} */ name, /** @type {() => void} */ act) =>
      h("button", { type: "button", "data-range": name, onclick: act }, t(`range.${name}`));
    const input = (/** @type {string} */ name) => h("label", {}, t(`range.${name}`, { zone: MINE }), " ", h("input", { class: "form-control", type: "datetime-local", step: 1, max: "9999-12-31T23:59:59", name, required: true }));
    this.form = h("form", { class: "range-form", id: "range-form" }, input("from"), input("to"), h("button", { type: "submit", class: "btn btn-plain" }, t("range.show")));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const [from, to] = ["from", "to"].map((name) => Date.parse(/** @type {any} */ (this.form).elements[name].value));
      if (Number.isFinite(from + to)) this.choose(`${Math.min(from, to)}-${Math.max(from, to)}`);
    });
    fill(box, h("div", { class: "segments", role: "group", "aria-label": t("range.label") },
      Object.keys(SPANS).map((name) => button(name, () => this.choose(name))), button("custom", () => this.open())), this.form);
    this.box = box;
    this.draw();
  }

  /** @returns {{from: number, to: number} | null} */
  get custom() {
    const found = /^(\d{1,15})-(\d{1,15})$/.exec(this.chosen);
    return found && { from: Number(found[1]), to: Number(found[2]) };
  }

  get isNewest() {
    return this.chosen === "newest";
  }

  /** From where to where; without `to` until now. @returns {{from: number, to?: number}} */
  get span() {
    return this.custom ?? { from: now() - SPANS[this.chosen] };
  }

  /** @param {string} chosen */
  choose(chosen) {
    this.chosen = chosen;
    const search = new URLSearchParams(window.location.search);
    if (this.isNewest) search.delete(NAME);
    else search.set(NAME, chosen);
    window.history.replaceState(null, "", `${window.location.pathname}${search.size ? `?${search}` : ""}${window.location.hash}`);
    this.draw();
    this.changed();
  }

  /** Shows the fields, with what is looked at now. */
  open() {
    const { from, to = now() } = this.isNewest ? { from: now() - HOUR_MS } : this.span;
    this.put(from, to);
    this.mark("custom");
    /** @type {any} */ (this.form).elements.from.focus();
  }

  draw() {
    if (this.custom) this.put(this.custom.from, this.custom.to);
    this.mark(this.custom ? "custom" : this.chosen);
  }

  /** @param {string} name */
  mark(name) {
    for (const one of this.box.querySelectorAll("[data-range]")) one.setAttribute("aria-pressed", String(one.dataset.range === name));
    this.form.hidden = name !== "custom";
  }

  /** @param {number} from @param {number} to */
  put(from, to) {
    const local = (/** @type {number} */ ms) => `${parts(ms, MINE).date}T${parts(ms, MINE).time}`;
    Object.entries({ from, to }).forEach(([name, ms]) => void (/** @type {any} */ (this.form).elements[name].value = local(ms)));
  }
}
