/**
 * Text cut into blocks that a browser can lay out one by one, so that 100,000 lines or one line of 5 MB stay smooth.
 *
 * The blocks are slices of the text, one after the other, with nothing added or left out: an offset in the text is an
 * offset in one block. A line longer than LINE is cut into blocks of its own, marked as going on.
 */

const LINE = 4000;
export const LINES = 200;
const CHARS = 32_768;
/** A line of the worker's where the middle was cut: a block of its own. */
const CUT = /^\.\.\. [\d,]+ bytes cut \.\.\.\n?$/;

/**
 * @typedef {{text: string, start: number, end: number, line: number, lines: number, widest: number, isRest: boolean, goesOn: boolean, cut: boolean}} Block
 *   `start`, `end`: offsets in all that is shown; `line`: the number of its first line; `isRest`: that has begun in a block before
 */

/** @param {string} text @param {{start?: number, line?: number, isRest?: boolean}} [from] where the text begins in all that is shown @returns {Block[]} */
export function blocksOf(text, { start: base = 0, line = 1, isRest = false } = {}) {
  /** @type {Block[]} */
  const blocks = [];
  const add = (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ lines, more = {}) => {
    const part = text.slice(from, to);
    blocks.push({ text: part, start: base + from, end: base + to, line, lines, widest: widestOf(part), isRest, goesOn: false, cut: false, ...more });
    isRest = !part.endsWith("\n");
    line += isRest ? lines - 1 : lines;
  };
  let [open, lines, isCut] = [0, 0, false];
  const close = (/** @type {number} */ at) => {
    if (at > open) add(open, at, lines, { cut: isCut });
    [open, lines, isCut] = [at, 0, false];
  };
  for (let start = 0; start < text.length;) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline + 1;
    if (end - start > LINE) {
      close(start);
      for (let at = start; at < end;) {
        let next = Math.min(at + LINE, end);
        if (end - next <= 1) next = end;
        else if (isLow(text.charCodeAt(next))) next += 1;
        add(at, next, 1, { goesOn: next < end });
        at = next;
      }
      open = end;
    } else {
      const cut = text.startsWith("... ", start) && CUT.test(text.slice(start, end));
      if (cut || isCut || lines === LINES || end - open > CHARS) close(start);
      isCut = cut;
      lines += 1;
    }
    start = end;
  }
  close(text.length);
  return blocks;
}

/** The index of the last block that begins there or before. @param {Block[]} blocks @param {number} place @param {"start" | "line"} [by] */
export function blockAt(blocks, place, by = "start") {
  let low = 0;
  let high = blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (blocks[middle][by] <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The second half of a character outside the basic plane. @param {number} code */
const isLow = (code) => code >= 0xdc00 && code <= 0xdfff;

/** How wide its widest line is at most, in columns: what is not ASCII counts for two, a tab for eight. @param {string} text */
function widestOf(text) {
  let [widest, width] = [0, 0];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    width = code === 10 ? 0 : width + (code === 9 ? 8 : code > 126 ? 2 : 1);
    if (width > widest) widest = width;
  }
  return widest;
}
