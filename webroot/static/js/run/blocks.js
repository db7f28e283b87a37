/**
 * Text cut into blocks that a browser can lay out one by one, so that 100,000 lines or one line of 5 MB stay smooth.
 *
 * The blocks are slices of the text, one after the other, with nothing added or left out: an offset in the text is an
 * offset in one block. A line longer than LINE is cut into blocks of its own, marked as going on.
 */

const LINE = 4000;
const LINES = 200;
const CHARS = 32_768;
/** A line of the worker's where the middle was cut: a block of its own. */
const CUT = /^\.\.\. [\d,]+ bytes cut \.\.\.\n?$/;

/** @typedef {{start: number, end: number, lines: number, widest: number, goesOn: boolean, cut: boolean}} Block */

/** @param {string} text @returns {Block[]} */
export function blocksOf(text) {
  /** @type {Block[]} */
  const blocks = [];
  let open = blank(0);
  const close = (/** @type {number} */ at) => {
    if (open.end > open.start) blocks.push(open);
    open = blank(at);
  };
  for (let start = 0; start < text.length;) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline + 1;
    if (end - start > LINE) {
      close(start);
      cutLine(blocks, text, start, end);
      open = blank(end);
    } else {
      const cut = text.startsWith("... ", start) && CUT.test(text.slice(start, end));
      if (cut || open.cut || open.lines === LINES || end - open.start > CHARS) close(start);
      open.cut = cut;
      open.end = end;
      open.lines += 1;
      open.widest = Math.max(open.widest, columns(text, start, end));
    }
    start = end;
  }
  close(text.length);
  return blocks;
}

/** The index of the block with this offset. @param {Block[]} blocks @param {number} offset */
export function blockAt(blocks, offset) {
  let low = 0;
  let high = blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (blocks[middle].start <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** @param {Block[]} blocks @param {string} text @param {number} start @param {number} end */
function cutLine(blocks, text, start, end) {
  for (let at = start; at < end;) {
    let next = Math.min(at + LINE, end);
    if (end - next <= 1) next = end;
    else if (isLow(text.charCodeAt(next))) next += 1;
    blocks.push({ start: at, end: next, lines: 1, widest: columns(text, at, next), goesOn: next < end, cut: false });
    at = next;
  }
}

/** The second half of a character outside the basic plane. @param {number} code */
const isLow = (code) => code >= 0xdc00 && code <= 0xdfff;

/** How wide it is at most, in columns: a character that is not ASCII counts for two, a tab for eight. @param {string} text @param {number} start @param {number} end */
function columns(text, start, end) {
  let width = 0;
  for (let at = start; at < end; at += 1) {
    const code = text.charCodeAt(at);
    width += code === 9 ? 8 : code > 126 ? 2 : 1;
  }
  return width;
}

/** @param {number} at @returns {Block} */
const blank = (at) => ({ start: at, end: at, lines: 0, widest: 0, goesOn: false, cut: false });
