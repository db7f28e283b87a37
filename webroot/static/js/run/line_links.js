/** The numbers of the lines by keyboard: all of them are one stop of Tab, and arrow keys go from line to line. */

/** @param {import("./output.js").Output} output */
export function startLineLinks(output) {
  output.box.addEventListener("keydown", (event) => {
    const link = /** @type {HTMLElement} */ (/** @type {Element} */ (event.target).closest(".line-number"));
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!link || !step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const from = Number(link.dataset.number), way = Math.sign(step);
    let to = Math.max(1, Math.min(output.lines, from + step));
    let next = linkOf(output, to);
    while (!next && to + way >= 1 && to + way <= output.lines) next = linkOf(output, to += way); // what was cut has no number
    if (!next) return;
    focus(output, next);
  });
}

/** The line that is pointed at has been drawn anew, and keeps the focus. @param {import("./output.js").Output} output */
export function focusTarget(output) {
  const link = /** @type {HTMLElement | null} */ (output.box.querySelector(".is-target > .line-number"));
  if (link) focus(output, link, { preventScroll: true });
}

/** @param {import("./output.js").Output} output @param {HTMLElement} link @param {FocusOptions} [options] */
function focus({ box }, link, options) {
  box.querySelectorAll(".line-number[tabindex='0']").forEach((one) => one.setAttribute("tabindex", "-1"));
  link.setAttribute("tabindex", "0");
  link.focus(options);
}

/** Of the lines that are drawn now one is the stop: that which is pointed at, or the first. @param {import("./output.js").Output} output */
export function keepOneStop({ box }) {
  if (box.querySelector(".line-number[tabindex='0']")) return;
  (box.querySelector(".is-target > .line-number") ?? box.querySelector(".line-number"))?.setAttribute("tabindex", "0");
}

/** @param {import("./output.js").Output} output @param {number} line @returns {HTMLElement | null} */
const linkOf = (output, line) => output.drawn(line).querySelector(`[data-number="${line}"]`);
