/** From when to when the timeline shows, kept in the URL; and how it is moved: by buttons, keys, wheel, mouse and fingers. */
import { now } from "../clock.js";
import { delegate } from "../dom.js";
import { onKey } from "../keys.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const USUAL_HOURS = window.innerWidth < 640 ? 12 : 48;
const SHORTEST = 10 * MINUTE;
const LONGEST = 7 * 24 * HOUR;
/** A drag below this is a click. */
const STILL_PX = 4;

/** The names of what is shown, in the URL. */
const NAMES = ["by", "key", "q", "paused", "cursor"];

/** @typedef {{from: number, to: number}} Span */

export class View {
  /** @param {(isOver: boolean) => void} moved is called while it moves, and once it is over */
  constructor(moved) {
    this.moved = moved;
    this.take();
  }

  /** What the URL says. */
  take() {
    const search = new URLSearchParams(window.location.search);
    this.query = Object.fromEntries(NAMES.map((name) => [name, search.get(name) ?? ""]));
    const [from, to] = [Number(search.get("from")), Number(search.get("to"))];
    this.hours = Math.min(Math.max(Number(search.get("hours")) || USUAL_HOURS, 1 / 6), 168);
    /** Without a span of its own it goes along with the time. @type {Span | null} */
    this.fixed = to - from >= SHORTEST && to - from <= LONGEST ? { from, to } : null;
  }

  /** @returns {Span} */
  get span() {
    return this.fixed ?? { from: now() - (this.hours * HOUR) / 2, to: now() + (this.hours * HOUR) / 2 };
  }

  /** @param {Record<string, string>} change @param {{typed?: boolean}} [options] */
  ask(change, { typed = false } = {}) {
    this.query = { ...this.query, cursor: "", ...change };
    this.keep(!typed);
  }

  /** So many hours around now. @param {number} hours */
  around(hours) {
    this.hours = hours;
    this.fixed = null;
    this.done();
  }

  /** @param {number} share of what is shown, to later times */
  pan(share, isOver = true) {
    const { from, to } = this.span;
    this.set(from + share * (to - from), to - from, isOver);
  }

  /** @param {number} factor above 1: more is shown @param {number} [at] what stays where it is, as a share of the width */
  zoom(factor, at = 0.5, isOver = true) {
    const { from, to } = this.span;
    const length = Math.min(Math.max((to - from) * factor, SHORTEST), LONGEST);
    this.set(from + at * (to - from - length), length, isOver);
  }

  /** @param {number} from @param {number} length */
  set(from, length, isOver = true) {
    this.fixed = { from: Math.round(from), to: Math.round(from + length) };
    if (isOver) this.done();
    else this.moved(false);
  }

  done() {
    this.keep(false);
    this.moved(true);
  }

  /** @param {boolean} isStep it has an entry of its own in the history */
  keep(isStep) {
    const search = new URLSearchParams(NAMES.filter((name) => this.query[name]).map((name) => [name, this.query[name]]));
    if (this.fixed) Object.entries(this.fixed).forEach(([name, ms]) => search.set(name, String(ms)));
    else if (this.hours !== USUAL_HOURS) search.set("hours", String(this.hours));
    const url = search.size ? `/timeline?${search}` : "/timeline";
    window.history[isStep ? "pushState" : "replaceState"](null, "", url);
  }
}

/** @param {View} view */
export function startKeys(view) {
  onKey("ArrowLeft", () => view.pan(-0.25));
  onKey("ArrowRight", () => view.pan(0.25));
  for (const key of ["+", "="]) onKey(key, () => view.zoom(0.5));
  onKey("-", () => view.zoom(2));
  onKey("0", () => view.around(view.hours));
  delegate(document, "click", "[data-move]", ({ dataset: { move } }) => {
    ({ earlier: () => view.pan(-0.5), later: () => view.pan(0.5), in: () => view.zoom(0.5), out: () => view.zoom(2), now: () => view.around(view.hours) })[move]();
  });
}

/**
 * The chart is dragged, pinched, and turned with Ctrl and the wheel; a wheel that turns sideways moves it.
 * @param {HTMLElement} area @param {View} view @param {() => {left: number, width: number}} room where time is drawn, on the screen
 */
export function startPointers(area, view, room) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  let moved = 0;
  const shareOf = (/** @type {number} */ x) => Math.min(Math.max((x - room().left) / room().width, 0), 1);
  area.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // the page is turned
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) view.zoom(1.0015 ** event.deltaY, shareOf(event.clientX));
    else view.pan(event.deltaX / room().width);
  }, { passive: false });
  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved = 0;
  });
  window.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const others = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved += Math.abs(event.clientX - before.x);
    if (moved < STILL_PX) return;
    if (!others.length) return view.pan((before.x - event.clientX) / room().width, false);
    const [other] = others;
    const [was, is] = [Math.max(Math.abs(before.x - other.x), 8), Math.max(Math.abs(event.clientX - other.x), 8)];
    view.zoom(was / is, shareOf((event.clientX + other.x) / 2), false);
  });
  for (const type of ["pointerup", "pointercancel"]) {
    window.addEventListener(type, (/** @type {any} */ event) => {
      if (down.delete(event.pointerId) && moved >= STILL_PX) view.done();
    });
  }
  // What was dragged is not clicked (by a key it is: `detail` is 0), and a link not dragged away.
  area.addEventListener("click", (event) => event.detail > 0 && moved >= STILL_PX && event.preventDefault(), true);
  area.addEventListener("dragstart", (event) => event.preventDefault());
}
