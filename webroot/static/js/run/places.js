/** Places in the output: from an offset to what is on the page, and back to the number of a line. */
import { blockAt } from "./blocks.js";

/** @typedef {import("./output.js").Output} Output */

/** @param {Output} output @param {number} start @param {number} end offsets in what is shown @returns {Range | null} null where it is not there */
export function rangeOf({ blocks, elements }, start, end) {
  const [first, last] = [blockAt(blocks, start), blockAt(blocks, end - 1)];
  if (!elements[last] || start < blocks[0].start) return null;
  const range = document.createRange();
  range.setStart(...nodeAt(elements[first], start - blocks[first].start));
  range.setEnd(...nodeAt(elements[last], end - blocks[last].start));
  return range;
}

/** Whether it is seen, or nearly. @param {Output} output @param {number} start */
export const isNear = ({ blocks, elements }, start) => elements[blockAt(blocks, start)]?.classList.contains("has-lines");

/** Brings a place into view. @param {Output} output @param {number} start */
export function reveal(output, start) {
  const { box, blocks, elements } = output;
  elements[blockAt(blocks, start)]?.scrollIntoView({ block: "nearest" });
  const range = rangeOf(output, start, start + 1);
  if (!range) return;
  const [place, frame] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
  if (place.top < frame.top || place.bottom > frame.bottom) box.scrollTop += place.top - frame.top - frame.height / 3;
  if (place.left < frame.left || place.right > frame.right) box.scrollLeft += place.left - frame.left - frame.width / 3;
}

/** The number of the line with this offset. @param {Output} output @param {number} offset */
export function lineOf({ blocks }, offset) {
  const block = blocks[blockAt(blocks, offset)];
  return block ? block.line + block.text.slice(0, offset - block.start).split("\n").length - 1 : 0;
}

/** Where an offset in an element's text is. @param {Element} element @param {number} offset @returns {[Node, number]} */
function nodeAt(element, offset) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let left = offset;
  /** @type {Node} */
  let last = element;
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const { length } = /** @type {Text} */ (node);
    if (left <= length) return [node, left];
    left -= length;
    last = node;
  }
  return [last, last instanceof Text ? last.length : 0];
}
