/** What can be done with the output: search, wrap, copy, download, go to its end, its first error or a line. */
import { download } from "../api.js";
import { byId, delegate, h } from "../dom.js";
import { keep, kept } from "../kept.js";
import { onKey } from "../keys.js";
import { toast } from "../notices.js";
import { t } from "../text.js";
import { focusTarget } from "./line_links.js";
import { lineOf } from "./places.js";

const WRAP = "etcron.wrap";
const LINE = /^#L(\d{1,9})$/;

/**
 * @param {string} id
 * @param {import("./output.js").Output} output
 * @param {import("./follow.js").Follow} follow
 */
export function startTools(id, output, follow) {
  const wrap = byId("wrap");
  const setWrap = (/** @type {boolean} */ on) => {
    wrap.setAttribute("aria-pressed", String(on));
    output.wrap(on);
  };
  setWrap(kept(WRAP) !== "no");
  wrap.addEventListener("click", () => {
    setWrap(!output.wraps);
    keep(WRAP, output.wraps ? "yes" : "no");
  });
  byId("download").addEventListener("click", () => void save(id));
  byId("copy").addEventListener("click", () => void copy(output));
  const toError = () => {
    if (output.firstError < 0) return;
    follow.turn(false);
    pointAt(output, lineOf(output, output.firstError));
  };
  byId("first-error").addEventListener("click", toError);
  onKey("f", () => follow.isGoing && follow.turn(!follow.isOn));
  onKey("x", toError);
  delegate(output.box, "click", ".line-number", ({ dataset: { number } }) => {
    follow.turn(false);
    pointAt(output, Number(number));
    focusTarget(output);
  });
  output.box.addEventListener("click", (event) => /** @type {Element} */ (event.target).closest(".line-number") && event.preventDefault());
  window.addEventListener("hashchange", () => output.point(lineWanted()));
}

/** The line that the address leads to; 0: none. */
export const lineWanted = () => Number(LINE.exec(window.location.hash)?.[1] ?? 0);

/** @param {import("./output.js").Output} output @param {number} line */
function pointAt(output, line) {
  window.history.replaceState(window.history.state, "", `#L${line}`);
  output.point(line);
}

/** As a file; not by a link, which cannot carry what a session needs. @param {string} id */
async function save(id) {
  try {
    const url = URL.createObjectURL(await download(`/runs/${encodeURIComponent(id)}/output?download=1`));
    h("a", { href: url, download: `${id.replace(/[^\w.-]+/g, "-")}.txt` }).click();
    window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    toast(error.message, "bad");
  }
}

/** Where the browser gives no clipboard (plain http), the text is selected, for Ctrl-C. @param {import("./output.js").Output} output */
async function copy(output) {
  try {
    await navigator.clipboard.writeText(output.raw);
    toast(t("run.copied"));
  } catch {
    window.getSelection().selectAllChildren(output.box);
    toast(t("run.selected"));
  }
}
