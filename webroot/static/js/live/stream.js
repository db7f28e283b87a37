/**
 * One connection to the manager's events; asks every 5 s instead where that fails. Runs in the shared worker, or in the
 * page where there is none, so it touches no document.
 *
 * States: `connecting` -> `live` <-> `polling`; `stale` once nothing was heard for 25 s, or once both ways have failed.
 */

const EVENTS = "/api/v1/events";
const HEALTH = "/readyz?verbose";
const NAMES = ["hello", "jobs", "runs", "workers", "health", "failing", "ping"];
const SILENCE_MS = 25_000;
const POLL_EVERY_MS = 5_000;
/** While nobody answers: the reader waits for it. */
const POLL_STALE_MS = 2_000;
const RETRY_MS = [500, 2_000, 5_000, 15_000];
const NOTHING_WRONG = { etcd: "ok", logStore: "ok", sinceMs: null, problem: null };
/** How etcd may still be, as it was told before, by the status of a manager that tells no more. @type {Record<string, string[]>} */
const STAYS = { ready: [], degraded: ["ok"], unready: ["away", "full"] };

/** @typedef {{kind: "event", name: string, data: any} | {kind: "state", state: string, sinceMs: number}} Message */

export class Stream {
  /** @param {(message: Message) => void} tell @param {number} [heardMs] when the manager was last heard */
  constructor(tell, heardMs = Date.now()) {
    this.tell = tell;
    this.state = "connecting";
    this.sinceMs = Date.now();
    this.heardMs = heardMs;
    this.failures = 0;
    this.pollFailed = false;
    /** As it was last told. @type {any} */
    this.health = null;
    this.polledMs = 0;
    this.retryMs = 0;
    /** @type {EventSource | null} */
    this.source = null;
    this.open();
    this.looking = setInterval(() => this.look(), 1000);
  }

  /** It tells nothing more. */
  close() {
    clearInterval(this.looking);
    this.source?.close();
    this.tell = () => {};
  }

  open() {
    const source = new EventSource(EVENTS);
    this.source = source;
    for (const name of NAMES) {
      source.addEventListener(name, (event) => this.heard(name, JSON.parse(event.data)));
    }
    source.onerror = () => source === this.source && this.failed();
  }

  /** @param {string} name @param {any} data */
  heard(name, data) {
    this.failures = 0;
    this.become("live");
    if (name === "health") this.health = data;
    this.tell({ kind: "event", name, data });
  }

  failed() {
    this.source?.close();
    this.source = null;
    this.retryMs = Date.now() + RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures += 1;
  }

  look() {
    const now = Date.now();
    if (this.source && this.state === "live" && now - this.heardMs > SILENCE_MS) this.failed();
    if (this.source && this.state !== "live" && this.failures === 0 && now - this.heardMs > POLL_EVERY_MS) this.failures = 1;
    if (!this.source && now >= this.retryMs) this.open();
    if (this.failures > 0 && now - this.polledMs >= (this.state === "stale" ? POLL_STALE_MS : POLL_EVERY_MS)) void this.poll();
    if (now - this.heardMs > SILENCE_MS || (this.failures > 1 && this.pollFailed)) this.become("stale");
  }

  async poll() {
    this.polledMs = Date.now();
    try {
      const answer = await fetch(HEALTH, { cache: "no-store", signal: AbortSignal.timeout(POLL_EVERY_MS) });
      const report = await answer.json();
      if (!(report.status in STAYS)) throw new Error("this is no report");
      if (this.pollFailed) this.retryMs = 0; // somebody is there again, so the stream may be, too
      this.pollFailed = false;
      if (this.failures === 0) return;
      this.become("polling");
      this.health = healthOf(report, this.health);
      this.tell({ kind: "event", name: "health", data: this.health });
      this.tell({ kind: "event", name: "poll", data: {} });
    } catch {
      this.pollFailed = true;
    }
  }

  /** @param {string} state */
  become(state) {
    const now = Date.now();
    const changed = state !== this.state;
    if (changed) this.sinceMs = state === "stale" ? this.heardMs : now;
    if (state !== "stale") {
      this.heardMs = now;
      this.pollFailed = false;
    }
    this.state = state;
    if (changed) this.report();
  }

  report() {
    this.tell({ kind: "state", state: this.state, sinceMs: this.sinceMs });
  }
}

/** What `/readyz` says, as the event `health` says it. @param {any} report @param {any} before as it was last told */
function healthOf(report, before) {
  if (!report.checks) return healthBy(report.status, before);
  const { etcd, logStore, fires } = report.checks;
  const away = (/** @type {any} */ check) => (check?.state === "unreachable" ? "away" : "ok");
  const full = etcd?.endpoints?.some((/** @type {any} */ member) => member.alarms?.includes("NOSPACE"));
  return { etcd: full ? "full" : away(etcd), logStore: away(logStore), sinceMs: null, problem: report.problems?.[0] ?? null, fires };
}

/**
 * The same where the manager does not know who asks, as while etcd is away for long, and tells its status alone. `unready`: etcd is away
 * or full, or the manager's clock is off. What was told before stays where it may still be so.
 * @param {string} status @param {any} before
 */
function healthBy(status, before) {
  if (STAYS[status].includes(before?.etcd)) return { ...before, recovery: undefined };
  return { ...NOTHING_WRONG, etcd: status === "unready" ? "unready" : "ok" };
}
