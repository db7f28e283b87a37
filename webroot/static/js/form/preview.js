/** The schedule as one types it: in words, with warnings, its next fires here and there. */
import { send } from "../api.js";
import { now } from "../clock.js";
import { h, icon } from "../dom.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { TIMING } from "../schema.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { full, MINE, parts } from "../zones.js";
import { triggerOf } from "./spec.js";

const FIRES = 5;
const PAUSE_MS = 250;
const MINUTE_MS = 60_000;
/** What one may type, by trigger: the example and what it is called. @type {Record<string, () => Record<string, string>>} */
const EXAMPLES = {
  cronExpr: () => ({ "0 */5 * * * * *": "minutes", "0 30 6 * * MON-FRI *": "weekdays", "0 0 3 L * * *": "last", "H H * * *": "hash" }),
  every: () => ({ "15m": "quarter", "1h30m": "ninety", "1d": "day" }),
  after: () => ({ "30s": "pause", "1h": "hour" }),
  at: () => ({ [instant(10 * MINUTE_MS)]: "soon", [instant(24 * 60 * MINUTE_MS)]: "tomorrow" }),
};

export class Preview {
  /**
   * @param {HTMLElement} box
   * @param {() => Record<string, any>} read
   * @param {(errors: any[]) => void} complain errors of what says when
   */
  constructor(box, read, complain) {
    this.box = box;
    this.read = read;
    this.complain = complain;
    this.typing = 0;
    this.asked = new Refresher((signal) => this.load(signal));
  }

  /** Somebody types. */
  soon() {
    window.clearTimeout(this.typing);
    this.typing = window.setTimeout(() => void this.asked.now(), PAUSE_MS);
  }

  /** The page begins, or something was chosen. */
  now() {
    window.clearTimeout(this.typing);
    void this.asked.now();
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const fields = this.read();
    const trigger = triggerOf(fields);
    if (!fields[trigger]) {
      this.complain([]);
      return examples(this.box, trigger);
    }
    const asked = Object.fromEntries(TIMING.map((field) => [field, fields[field]]));
    try {
      const answer = await send("POST", "/schedule/preview", { body: { ...asked, name: fields.name, n: FIRES }, signal });
      this.complain([]);
      draw(this.box, answer);
    } catch (error) {
      if (signal.aborted) throw error;
      this.complain(error.errors ?? []);
      const isOfTrigger = error.errors?.some((/** @type {any} */ one) => one.field.startsWith(trigger));
      if (isOfTrigger) examples(this.box, trigger);
      else if (error.errors?.length) redraw(this.box, h("p", { class: "muted" }, t("preview.mend")));
      else redraw(this.box, h("p", { class: "tone-bad" }, error.message));
    }
  }
}

/** @param {HTMLElement} box @param {any} answer */
function draw(box, { words, fires, warnings, timezone, cronExpr, after }) {
  const other = timezone !== MINE;
  const isToldBelow = (/** @type {string} */ warning) => fires.some((/** @type {any} */ fire) => fire.note && warning.includes(fire.note));
  redraw(box,
    h("p", { class: "words" }, icon("check2"), " ", words === cronExpr ? t("preview.valid") : words),
    warnings.filter((/** @type {string} */ one) => !isToldBelow(one)).map((/** @type {string} */ one) => h("p", { class: "tone-warn" }, icon("exclamation-triangle-fill"), " ", one)),
    after && h("p", { class: "muted" }, t("preview.after")),
    fires.length > 0 && h("div", { class: "scroll-x" }, h("table", { class: "grid auto" },
      h("caption", { class: "visually-hidden" }, t("preview.fires")),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("preview.next", { n: fires.length })), h("th", { scope: "col" }, timezone),
        other && h("th", { scope: "col" }, t("preview.mine", { zone: MINE })))),
      h("tbody", {}, fires.map((/** @type {any} */ fire) => row(fire, other))))));
}

/** @param {any} fire @param {boolean} other */
function row({ ms, local, note, open }, other) {
  const [date, rest] = local.split("T");
  return h("tr", { class: open === false ? "is-closed" : null }, h("td", { class: "muted" }, stamp(ms, { as: "until" })),
    h("td", { class: note || open === false ? "wraps" : null }, h("span", { class: "when" }, `${date} ${rest.slice(0, 8)} ${rest.slice(8).replace(/^\.\d+/, "") || "+00:00"}`),
      open === false && h("div", { class: "sub" }, icon("slash-circle"), " ", t("preview.closed")), note && h("div", { class: "sub tone-warn" }, note)),
    other && h("td", { class: "muted" }, h("span", { class: "when" }, full(ms, MINE))));
}

/** What one may type. @param {HTMLElement} box @param {string} trigger */
function examples(box, trigger) {
  redraw(box, h("p", { class: "muted" }, t("preview.fields")),
    h("dl", { class: "pairs" }, Object.entries(EXAMPLES[trigger]()).map(([text, what]) => [
      h("dt", {}, h("button", { type: "button", class: "example", "data-example": text, "data-for": trigger }, h("code", {}, text))), h("dd", {}, t(`preview.example.${what}`))]).flat()));
}

/** A whole minute so much later, with its offset here. @param {number} inMs */
function instant(inMs) {
  const { date, time, offset } = parts(Math.ceil((now() + inMs) / MINUTE_MS) * MINUTE_MS, MINE);
  return `${date}T${time}${offset}`;
}
