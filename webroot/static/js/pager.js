/** From page to page of a list that is read by cursors. */
import { h } from "./dom.js";
import { t } from "./text.js";

export class Pager {
  /** @param {string} label of the buttons together @param {() => void} changed the user wants another page */
  constructor(label, changed) {
    this.label = label;
    this.changed = changed;
    this.reset();
  }

  /** Back to the first page; where the next one begins is not known. */
  reset() {
    /** Cursors of the pages up to this one. @type {string[]} */
    this.cursors = [];
    /** Of the page after the one that is shown. @type {string | null} */
    this.nextCursor = null;
  }

  /** Of the page that is wanted; undefined: the first. */
  get cursor() {
    return this.cursors.at(-1);
  }

  /** @param {string | null} nextCursor of the page after the one that is shown now @returns {HTMLElement | null} null: there is one page */
  buttons(nextCursor) {
    this.nextCursor = nextCursor;
    if (!nextCursor && !this.cursors.length) return null;
    return h("nav", { class: "pager", "aria-label": this.label },
      this.cursors.length > 0 && this.button("previous", () => this.cursors.pop()), nextCursor && this.button("next", () => this.next()));
  }

  /** @param {string} key @param {() => void} move */
  button(key, move) {
    const step = () => {
      move();
      this.changed();
    };
    return h("button", { type: "button", class: "btn btn-plain", "data-key": key, onclick: step }, t(`pager.${key}`));
  }

  /** Clicked twice before the page is there it is one step. */
  next() {
    if (this.nextCursor && this.cursor !== this.nextCursor) this.cursors.push(this.nextCursor);
  }
}
