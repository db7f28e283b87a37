/** The expression as one types it: in words, with warnings, its next fires here and there. */
import { send } from "../api.js";
import { fill, h, icon } from "../dom.js";
import { duration } from "../durations.js";
import { now } from "../clock.js";
import { t } from "../text.js";
import { full, MINE } from "../zones.js";
import { Refresher } from "../refresher.js";

const FIRES = 5;
const PAUSE_MS = 250;

export class Preview {
  /**
   * @param {HTMLElement} box
   * @param {() => {cronExpr: string, timezone: string, name: string}} read
   * @param {(errors: any[]) => void} complain errors of the expression and of the zone
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

  /** The page begins. */
  now() {
    void this.asked.now();
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const { cronExpr, timezone, name } = this.read();
    if (!cronExpr) {
      this.complain([]);
      return examples(this.box);
    }
    try {
      const answer = await send("POST", "/schedule/preview", { body: { cronExpr, timezone: timezone || "UTC", n: FIRES, name }, signal });
      this.complain([]);
      draw(this.box, answer);
    } catch (error) {
      if (signal.aborted) throw error;
      this.complain(error.errors ?? []);
      if (error.errors?.length) examples(this.box);
      else fill(this.box, h("p", { class: "tone-bad" }, error.message));
    }
  }
}

/** @param {HTMLElement} box @param {any} answer */
function draw(box, { words, fires, warnings, timezone, cronExpr }) {
  const other = timezone !== MINE;
  fill(box,
    h("p", { class: "words" }, icon("check2"), " ", words === cronExpr ? t("preview.valid") : words),
    warnings.map((/** @type {string} */ one) => h("p", { class: "tone-warn" }, icon("exclamation-triangle-fill"), " ", one)),
    fires.length > 0 && h("div", { class: "scroll-x" }, h("table", { class: "grid auto" },
      h("caption", { class: "visually-hidden" }, t("preview.fires")),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("preview.next", { n: fires.length })), h("th", { scope: "col" }, timezone),
        other && h("th", { scope: "col" }, t("preview.mine", { zone: MINE })))),
      h("tbody", {}, fires.map((/** @type {any} */ fire) => row(fire, other))))));
}

/** @param {any} fire @param {boolean} other */
function row({ ms, local, note }, other) {
  const [date, rest] = local.split("T");
  return h("tr", {}, h("td", { class: "muted" }, t("time.in", { time: duration(Math.max(0, Math.round((ms - now()) / 1000) * 1000)) })),
    h("td", { class: note ? "wraps" : null }, `${date} ${rest.slice(0, 8)} ${rest.slice(8).replace(/^\.\d+/, "") || "+00:00"}`, note && h("div", { class: "sub tone-warn" }, note)),
    other && h("td", { class: "muted" }, full(ms, MINE)));
}

/** What one may type. @param {HTMLElement} box */
function examples(box) {
  const lines = { "0 */5 * * * * *": "minutes", "0 30 6 * * MON-FRI *": "weekdays", "0 0 3 L * * *": "last", "H H * * *": "hash" };
  fill(box, h("p", { class: "muted" }, t("preview.fields")),
    h("dl", { class: "pairs" }, Object.entries(lines).map(([expr, what]) => [
      h("dt", {}, h("button", { type: "button", class: "example", "data-example": expr }, h("code", {}, expr))), h("dd", {}, t(`preview.example.${what}`))]).flat()));
}

/** The zones for the list; those of this browser, which knows nearly the same. @param {HTMLElement} list */
export function fillZones(list) {
  const zones = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];
  list.replaceChildren(...zones.map((value) => h("option", { value })));
}

