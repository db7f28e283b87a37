/** Lines by which a command tells how far it is: they are in its output, and are shown as a bar in place of lines. */
import { uncoloured } from "../printed.js";

const PROGRESS = /^::progress[ \t]{1,8}\d{1,3}(?:\.\d{1,6})?(?:[ \t%][^\n]*)?(?:\n|$(?![^]))/gm;
const BEGIN = "::progress";
/** No longer line is held back until its end has come. */
const MOST = 1000;
/** Of a line that is shown by itself. */
const MOST_SHOWN = 300;

/** What is shown of an output that comes in pieces. */
export class ProgressLines {
  constructor() {
    /** The begin of a line that may be one. */
    this.held = "";
    this.isInLine = false;
    /** So many are not shown. */
    this.count = 0;
  }

  /** @param {string} piece @param {boolean} isLast nothing follows @returns {string} */
  without(piece, isLast) {
    const text = this.held + piece;
    const from = this.isInLine ? text.indexOf("\n") + 1 || text.length : 0;
    const last = isLast ? text.length : Math.max(from, text.lastIndexOf("\n") + 1);
    const tail = text.slice(last);
    const mayBe = tail.length < MOST && (tail.startsWith(BEGIN) || BEGIN.startsWith(tail));
    this.held = mayBe ? tail : "";
    this.isInLine = !mayBe || (from === text.length && text !== "" && !text.endsWith("\n"));
    const shown = text.slice(from, last).replace(PROGRESS, () => {
      this.count += 1;
      return "";
    });
    return text.slice(0, from) + shown + (mayBe ? "" : tail);
  }
}

/** The last line that says something, without its colours. @param {string} output */
export function lastLineOf(output) {
  const lines = output.slice(-10_000).replace(PROGRESS, "").split("\n");
  return uncoloured(lines.findLast((line) => uncoloured(line).trim()) ?? "").trim().slice(0, MOST_SHOWN);
}
