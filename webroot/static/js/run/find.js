/** Searching in the output: all places are marked, one is the current one. Nothing is added to the page for it. */
import { byId } from "../dom.js";
import { number, t } from "../text.js";
import { isNear, rangeOf, reveal } from "./places.js";

const MOST = 5000;
const PAUSE_MS = 150;

export class Find {
  /** @param {import("./output.js").Output} output */
  constructor(output) {
    this.output = output;
    this.field = /** @type {HTMLInputElement} */ (byId("find"));
    /** @type {[number, number][]} */
    this.places = [];
    this.current = -1;
    this.typing = 0;
    this.field.addEventListener("input", () => {
      window.clearTimeout(this.typing);
      this.typing = window.setTimeout(() => this.search(), PAUSE_MS);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    });
    byId("find-next").addEventListener("click", () => this.step(1));
    byId("find-previous").addEventListener("click", () => this.step(-1));
  }

  search() {
    const { text, from } = this.output.shown;
    this.places = placesOf(text, this.field.value).map(([start, end]) => [from + start, from + end]);
    this.current = this.places.length ? 0 : -1;
    this.mark();
    if (this.places.length) reveal(this.output, this.places[0][0]);
  }

  /** @param {number} by */
  step(by) {
    const count = this.places.length;
    if (!count) return;
    this.current = (this.current + by + count) % count;
    this.mark();
    reveal(this.output, this.places[this.current][0]);
  }

  mark() {
    const count = this.places.length;
    const all = count >= MOST ? `${number(MOST)}+` : number(count);
    const said = this.field.value ? (count ? t("run.found", { at: this.current + 1, all }) : t("run.found.none")) : "";
    if (byId("found").textContent !== said) byId("found").textContent = said;
    if (!("highlights" in CSS)) return;
    const ranges = this.places.map(([start, end]) => isNear(this.output, start) && rangeOf(this.output, start, end)); // others are seen by nobody
    CSS.highlights.set("found", new Highlight(...ranges.filter((range, index) => range && index !== this.current)));
    CSS.highlights.set("found-now", new Highlight(...ranges.filter((range, index) => range && index === this.current)));
  }
}

/** @param {string} text @param {string} wanted @returns {[number, number][]} */
function placesOf(text, wanted) {
  /** @type {[number, number][]} */
  const places = [];
  if (!wanted) return places;
  const pattern = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  for (let match = pattern.exec(text); match && places.length < MOST; match = pattern.exec(text)) {
    places.push([match.index, match.index + match[0].length]);
  }
  return places;
}
