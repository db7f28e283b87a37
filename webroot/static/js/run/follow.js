/** Keeps the end of the output in view while it grows, until the reader scrolls up; then it counts what comes. */
import { byId, h, icon } from "../dom.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";

const NEAR = 24;

export class Follow {
  /** @param {import("./output.js").Output} output */
  constructor(output) {
    this.output = output;
    this.isOn = false;
    this.isGoing = false;
    /** How many lines there were when the reader left the end. */
    this.seen = 0;
    this.top = 0;
    const { box } = output;
    byId("follow").addEventListener("click", () => this.turn(!this.isOn));
    byId("to-end").addEventListener("click", () => (this.isGoing ? this.turn(true) : this.toEnd()));
    byId("new-lines").addEventListener("click", () => this.turn(true));
    box.addEventListener("scroll", () => {
      if (this.isGoing && this.isOn && box.scrollTop < this.top - 2 && !this.isAtEnd) this.turn(false);
      else if (this.isGoing && !this.isOn && box.scrollTop > this.top && this.isAtEnd) this.turn(true);
      this.top = box.scrollTop;
    });
  }

  get isAtEnd() {
    const { box } = this.output;
    return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
  }

  /** Whether the run is going: else there is nothing to follow. @param {boolean} isGoing */
  going(isGoing) {
    if (isGoing && !this.isGoing) this.isOn = true;
    this.isGoing = isGoing;
    this.show();
  }

  /** @param {boolean} isOn */
  turn(isOn) {
    this.isOn = isOn;
    this.seen = this.output.lines;
    if (isOn) this.toEnd();
    this.show();
  }

  /** There is more. */
  grown() {
    if (this.isGoing && this.isOn) this.toEnd();
    this.show();
  }

  /** The browser guesses how high what it has not laid out is, so it is gone to the end once more when it knows. */
  toEnd(times = 4) {
    const { box } = this.output;
    box.scrollTop = box.scrollHeight;
    this.top = box.scrollTop;
    if (times > 0) requestAnimationFrame(() => (this.isAtEnd && times < 3 ? undefined : this.toEnd(times - 1)));
  }

  show() {
    byId("follow").hidden = !this.isGoing;
    byId("follow").setAttribute("aria-pressed", String(this.isOn));
    this.output.box.classList.toggle("follows", this.isGoing && this.isOn);
    const more = this.isGoing && !this.isOn ? this.output.lines - this.seen : 0;
    byId("new-lines").hidden = more <= 0;
    if (more > 0) redraw(byId("new-lines"), icon("arrow-down"), h("span", {}, t("run.new.lines", { n: more })));
  }
}
