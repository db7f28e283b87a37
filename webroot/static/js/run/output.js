/**
 * What a run has printed: blocks of text that the browser lays out only where they are seen. Where one comes near its lines are
 * made, with their numbers and colours; elsewhere it is one text, so that the browser finds, selects and copies all of it.
 */
import { h } from "../dom.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";
import { blockAt, blocksOf, LINES } from "./blocks.js";
import { Colours } from "./colours.js";
import { drawLines } from "./lines.js";
import { reveal } from "./places.js";
import { ProgressLines } from "./progress_lines.js";

/** What is taken in between two frames. */
const PIECE = 262_144;
/** So much of what is printed now is kept on the page; the record has all. */
const MOST = 16_777_216;
const ERROR = /^(?!.*\b(?:0|no) (?:errors?|failures?)\b).*\b(?:errors?|fatal|panic|exception|traceback|failed|failure|segfault|denied|cannot)\b/im;

export class Output {
  /** @param {HTMLElement} box @param {{changed: () => void}} tell of what has been added or drawn */
  constructor(box, { changed }) {
    this.box = box;
    this.changed = changed;
    this.wraps = true;
    /** The number of a line to be pointed at; 0: none. */
    this.target = 0;
    this.colours = new Colours(box.dataset.colours ?? "");
    this.near = new IntersectionObserver((entries) => this.onNear(entries), { root: box, rootMargin: "600px 0px" });
    this.clear();
  }

  clear() {
    this.near.disconnect();
    this.colours.reset();
    this.progress = new ProgressLines();
    this.box.replaceChildren();
    delete this.box.dataset.complete;
    /** As it was printed. */
    this.raw = "";
    /** @type {import("./blocks.js").Block[]} */
    this.blocks = [];
    /** @type {Map<Element, import("./blocks.js").Block>} */
    this.blockOf = new Map();
    /** @type {HTMLElement[]} */
    this.elements = [];
    /** @type {import("./colours.js").Change[]} */
    this.changes = [];
    /** What is still to be taken in. @type {string[]} */
    this.waiting = [];
    this.length = 0;
    this.widest = 0;
    /** Where the first line is that tells of an error; -1: nowhere yet. */
    this.firstError = -1;
    this.turn = (this.turn ?? 0) + 1;
    this.isWorking = false;
  }

  /** How many lines there are. */
  get lines() {
    const last = this.blocks.at(-1);
    return last ? last.line + last.lines - 1 : 0;
  }

  /** What is shown, and the offset at which it begins. */
  get shown() {
    return { text: this.blocks.map(({ text }) => text).join(""), from: this.blocks[0]?.start ?? 0 };
  }

  /** All of it. @param {string} raw @returns {boolean} whether it is another one than before */
  show(raw) {
    if (raw === this.raw) {
      if (!this.isWorking && (this.colours.held || this.progress.held)) this.take("", true);
      return false;
    }
    this.clear();
    void this.add(raw, true);
    return true;
  }

  /** What was printed next. @param {string} raw @param {boolean} [isLast] nothing follows */
  async add(raw, isLast = false) {
    if (!this.blocks.length) this.box.replaceChildren();
    this.raw = (this.raw + raw).slice(-2 * MOST);
    for (let at = 0; at < raw.length; at += PIECE) this.waiting.push(raw.slice(at, at + PIECE));
    if (this.isWorking) return;
    this.isWorking = true;
    const { turn } = this;
    while (this.waiting.length) {
      const piece = this.waiting.shift();
      await this.colours.ready(piece);
      if (turn !== this.turn) return;
      this.take(piece, isLast && !this.waiting.length);
      if (this.waiting.length) await frame();
      if (turn !== this.turn) return;
    }
    this.isWorking = false;
    if (isLast && !this.blocks.length) this.none("");
    this.box.dataset.complete = String(this.blocks.length);
    this.changed();
  }

  /** @param {string} piece @param {boolean} isLast */
  take(piece, isLast) {
    const last = this.blocks.at(-1);
    const goesOn = last && !last.cut && (!last.text.endsWith("\n") || last.lines < LINES / 4);
    if (goesOn) this.remove(this.blocks.length - 1);
    const { text, changes } = this.colours.paint(this.progress.without(piece, isLast), isLast);
    this.changes.push(...changes.map(({ at, look }) => ({ at: this.length + at, look })));
    const before = goesOn ? last.text : "";
    const from = goesOn ? last : { start: this.length, line: this.lines + 1, isRest: false };
    if (this.firstError < 0) {
      const found = ERROR.exec(before + text);
      if (found) this.firstError = from.start + found.index;
    }
    this.length += text.length;
    const elements = blocksOf(before + text, from).map((block) => this.make(block));
    this.box.append(...elements);
    while (this.length - this.blocks[0]?.start > MOST) this.remove(0);
    this.width();
    this.changed();
  }

  /** @param {number} index */
  remove(index) {
    const [element] = this.elements.splice(index, 1);
    this.blocks.splice(index, 1);
    this.blockOf.delete(element);
    this.near.unobserve(element);
    element.remove();
  }

  /** @param {import("./blocks.js").Block} block */
  make(block) {
    const element = h("pre", { class: block.cut ? "cut" : block.goesOn ? "goes-on" : null }, document.createTextNode(block.text));
    element.style.setProperty("--lines", String(block.lines));
    this.widest = Math.max(this.widest, block.widest);
    this.blocks.push(block);
    this.elements.push(element);
    this.blockOf.set(element, block);
    this.near.observe(element);
    return element;
  }

  /** @param {IntersectionObserverEntry[]} entries */
  onNear(entries) {
    const isSelecting = !window.getSelection().isCollapsed;
    for (const { target: element, isIntersecting } of entries) {
      const block = this.blockOf.get(element);
      const has = element.classList.contains("has-lines");
      if (!block || has === isIntersecting || (has && isSelecting)) continue;
      element.classList.toggle("has-lines", isIntersecting);
      if (isIntersecting) drawLines(element, block, this.changes, this.target);
      else element.replaceChildren(document.createTextNode(block.text));
    }
    this.changed();
  }

  /** @param {boolean} wraps whether long lines are broken */
  wrap(wraps) {
    this.wraps = wraps;
    this.width();
  }

  width() {
    const digits = String(Math.max(this.lines, 100)).length;
    this.box.classList.toggle("wraps", this.wraps);
    this.box.style.setProperty("--gutter", `${digits + 2}ch`);
    this.box.style.setProperty("--widest", `${this.widest + digits + 4}ch`);
  }

  /** Where a line begins, with its number. @param {number} line one that there is @param {boolean} [anew] @returns {HTMLElement} */
  drawn(line, anew = false) {
    let at = blockAt(this.blocks, line, "line");
    while (this.blocks[at].isRest && this.blocks[at].line === line) at -= 1;
    const element = this.elements[at];
    if (anew || !element.classList.contains("has-lines")) drawLines(element, this.blocks[at], this.changes, this.target);
    element.classList.add("has-lines");
    return element;
  }

  /** Points at a line, where there is one of that number. @param {number} line @returns {boolean} */
  point(line) {
    if (!(line >= 1 && line <= this.lines)) return false;
    this.target = line;
    this.box.querySelector(".is-target")?.classList.remove("is-target");
    const block = this.blockOf.get(this.drawn(line, true));
    const lines = block.text.split("\n");
    reveal(this, block.start + lines.slice(0, line - block.line).join("\n").length + (line > block.line ? 1 : 0));
    return true;
  }

  /** @param {string} text what to say where there is no output */
  none(text) {
    if (this.blocks.length) this.clear();
    redraw(this.box, h("p", { class: "muted" }, text || t("run.no.output")));
  }
}

const frame = () => new Promise((resolve) => (document.hidden ? window.setTimeout(resolve) : requestAnimationFrame(resolve)));
