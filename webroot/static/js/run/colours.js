/**
 * The colours of a terminal in what a command has printed. `ansi_up` reads the sequences that set colours and weights, and
 * nothing else reaches it: every other control character stays text, so none moves a cursor, opens a link or hides anything.
 */
import { printable } from "../printed.js";

const SGR = /\u001b\[[\d;:]{0,60}m/g;
/** The beginning of such a sequence, or of a terminal's line break, at the end of a piece. */
const CUT_OFF = /(\u001b(\[[\d;:]{0,60})?|\r)$/;
const WEIGHTS = ["bold", "faint", "italic", "underline"];
/** So many steps from one look to the next are known by heart. */
const MOST_KNOWN = 5000;

/** @typedef {{at: number, look: string}} Change from this offset in the text on it looks so */

export class Colours {
  /** @param {string} url of the library, which is loaded once something has a colour */
  constructor(url) {
    this.url = url;
    this.reset();
  }

  reset() {
    /** @type {any} */
    this.state = null;
    this.held = "";
    this.look = "";
    /** What becomes of a look by a sequence, with what the library has to know of it. @type {Map<string, any>} */
    this.known = new Map();
    /** @type {any} */
    this.now = { bold: false, faint: false, italic: false, underline: false, fg: null, bg: null };
  }

  /** @param {string} piece */
  async ready(piece) {
    if (this.state || !`${this.held}${piece}`.includes("\u001b[")) return;
    const { AnsiUp } = await import(this.url);
    this.state ??= Object.assign(new AnsiUp(), { use_classes: true });
  }

  /** Text to be shown, and where its look changes. @param {string} piece the next of what was printed @param {boolean} isLast @returns {{text: string, changes: Change[]}} */
  paint(piece, isLast) {
    const raw = this.held + piece;
    const tail = isLast ? "" : (CUT_OFF.exec(raw)?.[0] ?? "");
    this.held = tail;
    const parts = [];
    /** @type {Change[]} */
    const changes = [];
    let [from, length] = [0, 0];
    const whole = tail ? raw.slice(0, -tail.length) : raw;
    for (const { 0: sequence, index } of whole.matchAll(SGR)) {
      parts.push(printable(whole.slice(from, index)));
      length += index - from;
      from = index + sequence.length;
      const look = this.state ? this.step(sequence) : "";
      if (look !== this.look) changes.push({ at: length, look });
      this.look = look;
    }
    parts.push(printable(whole.slice(from)));
    return { text: parts.join(""), changes };
  }

  /** The look after a sequence; a log has thousands of each. @param {string} sequence */
  step(sequence) {
    const key = this.look + sequence;
    let next = this.known.get(key);
    if (!next) {
      if (this.known.size >= MOST_KNOWN) this.known.clear();
      Object.assign(this.state, this.now).ansi_to_html(sequence.replaceAll(":", ";"));
      const { bold, faint, italic, underline, fg, bg } = this.state;
      next = { look: lookOf(this.state), state: { bold, faint, italic, underline, fg, bg } };
      this.known.set(key, next);
    }
    this.now = next.state;
    return next.look;
  }
}

/** Classes: a colour is one of the sixteen that are legible in light and dark. @param {any} state of AnsiUp */
function lookOf(state) {
  const weights = WEIGHTS.filter((name) => state[name]);
  return [...weights, state.fg && nearest(state, state.fg), state.bg && `on-${nearest(state, state.bg)}`].filter(Boolean).map((name) => `ansi-${name}`).join(" ");
}

/** @param {any} state @param {{rgb: number[], class_name: string}} colour */
function nearest({ ansi_colors: tables }, { rgb, class_name: name }) {
  if (name !== "truecolor") return name.replace("ansi-", "");
  const distance = (/** @type {any} */ one) => one.rgb.reduce((/** @type {number} */ sum, /** @type {number} */ part, /** @type {number} */ at) => sum + (part - rgb[at]) ** 2, 0);
  return tables.flat().reduce((/** @type {any} */ best, /** @type {any} */ one) => (distance(one) < distance(best) ? one : best)).class_name.replace("ansi-", "");
}
