/** Loads again when something has changed: never twice at once, not too often, in turn, and only while the page is seen. */

/** Events come in batches, at most every half a second. */
const HEARD_MS = 500;
/** All that a page asks for by itself is at least so far apart. */
const APART_MS = 1000;
/** How soon it looks whether what was wrong has passed. */
const PASSED_MS = 5000;
let askedMs = -Infinity;

/** Whether the page may ask for something by itself now; if so, it has. A part that may not tries again once a second has passed. */
function takeTurn() {
  const isFree = performance.now() >= askedMs + APART_MS;
  if (isFree) askedMs = performance.now();
  return isFree;
}

export class Refresher {
  /**
   * @param {(signal: AbortSignal) => Promise<void>} load handles its own errors, but for being aborted
   * @param {number} [everyMs] at most so often by itself
   * @param {() => boolean} [isOpen] whether the part of the page that shows it is; to open it is to ask for it
   */
  constructor(load, everyMs = 2000, isOpen = () => true) {
    this.load = load;
    this.everyMs = everyMs;
    this.isSeen = () => !document.hidden && isOpen();
    this.lastMs = -Infinity;
    /** The least time between two loads, as the most urgent wish has it; Infinity: nobody wishes anything. */
    this.spacingMs = Infinity;
    this.twice = false;
    this.timer = 0;
    /** @type {AbortController | null} */
    this.going = null;
    document.addEventListener("visibilitychange", () => this.spacingMs < Infinity && this.want(this.spacingMs));
  }

  /** Whether an answer is awaited: what has been heard since it was asked for may not be in it. */
  get isLoading() {
    return this.going !== null;
  }

  /** What is shown may be old. */
  soon() {
    this.want(this.everyMs);
  }

  /** What was answered tells of something wrong, which may pass with no event that says so. */
  later() {
    this.want(Math.max(PASSED_MS, this.everyMs));
  }

  /** Something has changed, which may show only a while later: look, and look once more then. */
  changed() {
    this.twice = true;
    this.soon();
  }

  /**
   * Something has changed: look, and look once more a little later. Behind several managers the first answer may come
   * from one that has not heard of it yet.
   */
  heard() {
    this.twice = true;
    this.want(Math.min(HEARD_MS, this.everyMs));
  }

  /** The user has asked for something else: at once, whatever is under way. */
  async now() {
    window.clearTimeout(this.timer);
    this.spacingMs = Infinity;
    askedMs = performance.now();
    this.going?.abort();
    const going = new AbortController();
    this.going = going;
    try {
      await this.load(going.signal);
    } catch (error) {
      if (!going.signal.aborted) throw error;
    }
    if (this.going !== going) return;
    this.going = null;
    this.lastMs = performance.now();
    if (this.twice && this.spacingMs > this.everyMs) {
      this.twice = false;
      this.soon();
    } else if (this.spacingMs < Infinity) this.want(this.spacingMs);
  }

  /** @param {number} spacingMs */
  want(spacingMs) {
    this.spacingMs = Math.min(this.spacingMs, spacingMs);
    if (this.going || !this.isSeen()) return;
    this.in(this.lastMs + this.spacingMs - performance.now());
  }

  /** @param {number} ms */
  in(ms) {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      if (!this.isSeen()) return; // the wish stays for when it is
      if (takeTurn()) void this.now();
      else this.in(askedMs + APART_MS - performance.now());
    }, Math.max(0, ms));
  }
}
