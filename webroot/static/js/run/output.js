/** The whole output on the page: blocks of text that the browser lays out only where they are seen. */
import { h } from "../dom.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";
import { blockAt, blocksOf } from "./blocks.js";
import { printable } from "../printed.js";

const BLOCKS_A_TURN = 200;

export class Output {
  /** @param {HTMLElement} box */
  constructor(box) {
    this.box = box;
    this.text = "";
    /** @type {import("./blocks.js").Block[]} */
    this.blocks = [];
    /** @type {Text[]} */
    this.nodes = [];
    this.wraps = true;
    this.turn = 0;
  }

  /** @param {string} text as the command has printed it @returns {boolean} whether it is another one than before */
  show(text) {
    if (text === this.text) return false;
    this.text = text;
    const printed = printable(text);
    this.printed = printed;
    this.blocks = blocksOf(printed);
    this.nodes = [];
    this.box.replaceChildren();
    this.turn += 1;
    this.width();
    this.add(0, this.turn);
    return true;
  }

  /** Some blocks now, more when the browser has drawn them. @param {number} from @param {number} turn */
  add(from, turn) {
    if (turn !== this.turn) return;
    const to = Math.min(from + BLOCKS_A_TURN, this.blocks.length);
    const added = this.blocks.slice(from, to).map((block) => {
      const text = document.createTextNode(this.printed.slice(block.start, block.end));
      this.nodes.push(text);
      const element = h("pre", { class: block.goesOn ? "goes-on" : block.cut ? "cut" : null }, text);
      element.style.setProperty("--lines", String(block.lines));
      return element;
    });
    this.box.append(...added);
    if (to < this.blocks.length) requestAnimationFrame(() => this.add(to, turn));
    else this.box.dataset.complete = String(this.blocks.length);
  }

  /** @param {boolean} wraps whether long lines are broken */
  wrap(wraps) {
    this.wraps = wraps;
    this.width();
  }

  width() {
    const widest = this.blocks.reduce((most, block) => Math.max(most, block.widest), 0);
    this.box.classList.toggle("wraps", this.wraps);
    this.box.style.setProperty("--widest", `${widest + 2}ch`);
  }

  /** @param {number} start @param {number} end offsets in the text @returns {Range | null} null where it is not on the page yet */
  range(start, end) {
    const [first, last] = [blockAt(this.blocks, start), blockAt(this.blocks, end - 1)];
    if (!this.nodes[last]) return null;
    const range = document.createRange();
    range.setStart(this.nodes[first], start - this.blocks[first].start);
    range.setEnd(this.nodes[last], end - this.blocks[last].start);
    return range;
  }

  /** Brings a place into view. @param {number} start */
  reveal(start) {
    this.nodes[blockAt(this.blocks, start)]?.parentElement.scrollIntoView({ block: "nearest" });
    const range = this.range(start, start + 1);
    if (!range) return;
    const [place, frame] = [range.getBoundingClientRect(), this.box.getBoundingClientRect()];
    if (place.top < frame.top || place.bottom > frame.bottom) this.box.scrollTop += place.top - frame.top - frame.height / 3;
    if (place.left < frame.left || place.right > frame.right) this.box.scrollLeft += place.left - frame.left - frame.width / 3;
  }

  /** @param {string} text what to say where there is no output */
  none(text) {
    this.show("");
    redraw(this.box, h("p", { class: "muted" }, text || t("run.no.output")));
  }
}
