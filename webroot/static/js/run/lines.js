/** The lines of a block: each with its number, which is a link to it, and in its colours. */
import { h } from "../dom.js";
import { t } from "../text.js";

/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {import("./colours.js").Change} Change */

/** @param {Element} element @param {Block} block @param {Change[]} changes of all that is shown @param {number} target the line to be pointed at */
export function drawLines(element, block, changes, target) {
  let at = block.start;
  let number = block.line;
  let change = lastBefore(changes, at);
  element.replaceChildren(...block.text.split(/(?<=\n)/).map((text, index) => {
    const isBegun = index === 0 && block.isRest;
    const line = h("span", { class: number === target ? "line is-target" : "line" },
      !isBegun && !block.cut && h("a", { class: "line-number", href: `#L${number}`, "data-number": number, tabindex: -1, "aria-label": t("run.line", { line: String(number) }) }));
    number += 1;
    for (const end = at + text.length; at < end;) {
      while (changes[change + 1]?.at <= at) change += 1;
      const to = Math.min(end, changes[change + 1]?.at ?? end);
      const part = text.slice(text.length - (end - at), text.length - (end - to));
      const look = changes[change]?.look;
      line.append(look ? h("span", { class: look }, part) : part);
      at = to;
    }
    return line;
  }));
}

/** The index of the last change up to there; -1: none. @param {Change[]} changes @param {number} at */
function lastBefore(changes, at) {
  let low = -1;
  let high = changes.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (changes[middle].at <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}
