/** How far a run that is going is: as its command says it, or by how long it usually takes. */
import { everySecond, now } from "../clock.js";
import { byId, h } from "../dom.js";
import { rough } from "../durations.js";
import { redraw } from "../redraw.js";
import { number, t } from "../text.js";

export class Progress {
  constructor() {
    this.box = byId("progress");
    /** @type {any} */
    this.run = null;
    /** @type {number | null | undefined} */
    this.usualMs = null;
    /** @type {{percent: number, text?: string, atMs: number} | null} */
    this.said = null;
    everySecond(() => this.show());
  }

  /** @param {any} run @param {number | null | undefined} usualMs of its job */
  of(run, usualMs) {
    this.run = run;
    this.usualMs = usualMs;
    this.show();
  }

  /** @param {{percent: number, text?: string}} said by the command */
  heard({ percent, text }) {
    this.said = { percent: Math.max(0, Math.min(100, percent)), text, atMs: now() };
    this.show();
  }

  show() {
    const { run, said, usualMs } = this;
    const elapsedMs = run?.state === "running" && run.startTime ? Math.max(0, now() - run.startTime) : null;
    this.box.hidden = elapsedMs === null || (!said && !usualMs);
    if (this.box.hidden) return;
    const share = said ? said.percent / 100 : Math.min(1, elapsedMs / usualMs);
    const isOver = !said && elapsedMs > usualMs;
    const words = [said && `${number(said.percent)} %`, said?.text, this.left(elapsedMs, share, isOver)].filter(Boolean);
    const bar = h("div", { class: "progress-bar-of" });
    bar.style.setProperty("width", `${(share * 100).toFixed(1)}%`);
    const meter = h("div", { class: `meter-of${isOver ? " is-over" : ""}`, role: "progressbar", "aria-label": t("run.progress"), "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": isOver ? null : Math.round(share * 100), "aria-valuetext": words.join(", ") }, bar);
    redraw(this.box, meter, h("span", {}, words.join(" · ")));
    /** @type {HTMLElement} */ (this.box.querySelector(".progress-bar-of")).style.setProperty("width", `${(share * 100).toFixed(1)}%`);
  }

  /** @param {number} elapsedMs @param {number} share @param {boolean} isOver */
  left(elapsedMs, share, isOver) {
    if (isOver) return t("run.over.usual", { time: rough(elapsedMs - this.usualMs), usual: rough(this.usualMs) });
    if (this.said) return share >= 0.05 && share < 1 ? t("run.left.about", { time: rough((elapsedMs * (1 - share)) / share) }) : "";
    return t("run.left.usual", { time: rough(this.usualMs - elapsedMs), usual: rough(this.usualMs) });
  }
}
