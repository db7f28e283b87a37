/** Loads again when something has changed: never twice at once, not too often, and only while the page is seen. */
export class Refresher {
  /**
   * @param {(signal: AbortSignal) => Promise<void>} load handles its own errors, but for being aborted
   * @param {number} [everyMs] at most so often by itself
   */
  constructor(load, everyMs = 2000) {
    this.load = load;
    this.everyMs = everyMs;
    this.lastMs = -Infinity;
    this.wanted = false;
    this.timer = 0;
    /** @type {AbortController | null} */
    this.going = null;
    document.addEventListener("visibilitychange", () => this.wanted && this.soon());
  }

  /** What is shown may be old. */
  soon() {
    this.wanted = true;
    if (this.going || document.hidden || this.timer) return;
    const waitMs = Math.max(0, this.lastMs + this.everyMs - performance.now());
    this.timer = window.setTimeout(() => void this.now(), waitMs);
  }

  /** The user has asked for something else: at once, whatever is under way. */
  async now() {
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.wanted = false;
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
    if (this.wanted) this.soon();
  }
}
