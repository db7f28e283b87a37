/** From page to page of a list that is read by cursors. */
import { h } from "./dom.js";
import { announce } from "./notices.js";
import { t } from "./text.js";

/**
 * Another page is there: its top is seen, its first row has the focus, and a reader of the screen hears of it.
 * @param {Element} box with the rows @param {string} text
 */
export function turned(box, text) {
  const first = /** @type {HTMLElement | null} */ (box.querySelector("tbody [data-row-link], tbody a[href]"));
  first?.focus({ preventScroll: true });
  box.scrollIntoView({ block: "start" });
  announce(text);
}

export class Pager {
  /**
   * @param {string} label of the buttons together
   * @param {() => void} changed the user wants another page
   * @param {string} [parameter] of the address, in which the page is kept: a reload, a link and Back lead to it
   */
  constructor(label, changed, parameter = "") {
    this.label = label;
    this.changed = changed;
    this.parameter = parameter;
    /** Cursors of the pages up to this one. @type {string[]} */
    this.cursors = [];
    /** Of the page after the one that is shown. @type {string | null} */
    this.nextCursor = null;
    this.isJump = false;
    /** Where the page stands that is waited for. @type {Element | null} */
    this.turning = null;
    if (!parameter) return;
    this.restore();
    window.addEventListener("popstate", () => {
      this.restore();
      this.changed();
    });
  }

  /** The page of the address; the way to it, where this browser has gone it. */
  restore() {
    const cursor = new URLSearchParams(window.location.search).get(this.parameter);
    const known = window.history.state?.[this.parameter] ?? [];
    this.cursors = cursor ? (known.at(-1) === cursor ? known : [cursor]) : [];
    this.nextCursor = null;
    /** Whether the way to it is not known: a link led here. */
    this.isJump = Boolean(cursor) && known.at(-1) !== cursor;
  }

  /** Back to the first page; where the next one begins is not known. */
  reset() {
    this.cursors = [];
    this.nextCursor = null;
    if (this.parameter) this.keep("replaceState");
  }

  /** @param {"pushState" | "replaceState"} how */
  keep(how) {
    const address = new URL(window.location.href);
    if (this.cursor) address.searchParams.set(this.parameter, this.cursor);
    else address.searchParams.delete(this.parameter);
    this.isJump &&= this.cursors.length === 1;
    window.history[how]({ [this.parameter]: this.cursors }, "", address);
  }

  /** Of the page that is wanted; undefined: the first. */
  get cursor() {
    return this.cursors.at(-1);
  }

  /** @param {string | null} nextCursor of the page after the one that is shown now @returns {HTMLElement | null} null: there is one page */
  buttons(nextCursor) {
    this.nextCursor = nextCursor;
    const box = this.turning;
    this.turning = null;
    if (box) queueMicrotask(() => turned(box, this.isJump ? t("pager.another") : t("pager.page", { page: String(this.cursors.length + 1) }))); // once it is drawn
    if (!nextCursor && !this.cursors.length) return null;
    return h("nav", { class: "pager", "aria-label": this.label },
      this.cursors.length > 0 && this.button(this.isJump ? "first" : "previous", () => this.cursors.pop()), nextCursor && this.button("next", () => this.next()));
  }

  /** @param {string} key @param {() => void} move */
  button(key, move) {
    const step = (/** @type {Event} */ { currentTarget }) => {
      this.turning = /** @type {Element} */ (currentTarget).closest("nav")?.parentElement ?? null;
      move();
      if (this.parameter) this.keep("pushState");
      this.changed();
    };
    return h("button", { type: "button", class: "btn btn-plain", "data-key": key, onclick: step }, t(`pager.${key}`));
  }

  /** Clicked twice before the page is there it is one step. */
  next() {
    if (this.nextCursor && this.cursor !== this.nextCursor) this.cursors = [...this.cursors, this.nextCursor];
  }
}
