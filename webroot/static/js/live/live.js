/** What this tab hears of the manager: through the shared worker, or through a stream of its own. */
import { heardNow } from "../clock.js";
import { inWords, isForeign } from "../said.js";
import { Stream } from "./stream.js";

/** @typedef {(data: any) => void} Listener */

/** @type {Map<string, Set<Listener>>} */
const listeners = new Map();
/** What came before is told first. @type {Promise<any>} */
let before = Promise.resolve();
/** The newest state of the connection, and of the servers behind the manager. */
export const status = { state: "connecting", sinceMs: Date.now(), health: /** @type {any} */ (null) };

/**
 * Events by name: `jobs`, `runs`, `workers`, `health` (also told to a tab that joins others: what came since it asked it has not heard), `failing` (how
 * many jobs do); `again` when anything may have changed (a connection is back, or it is time to ask); `status` when `status` has changed.
 * @param {string[]} names
 * @param {Listener} listener
 */
export function on(names, listener) {
  for (const name of names) {
    const known = listeners.get(name) ?? new Set();
    listeners.set(name, known.add(listener));
  }
}

/** How long the shared worker may take to tell its state, which is the first that it does. */
const FIRST_WORD_MS = 5_000;
/** Pings come every 10 s: a worker that is silent for longer has ended, which no event tells. */
const SILENCE_MS = 30_000;

/** Begins to listen. */
export function start() {
  const worker = shared();
  if (!worker) {
    void new Stream(take);
    return;
  }
  /** Until the worker says something. @type {Stream | null} */
  let own = null;
  const without = () => void (own ??= new Stream(take, status.state === "stale" ? status.sinceMs : Date.now()));
  let silence = setTimeout(without, FIRST_WORD_MS);
  const closeOwn = () => {
    clearTimeout(silence);
    own?.close();
    own = null;
  };
  worker.onerror = without;
  worker.port.onmessage = (event) => {
    closeOwn();
    take(event.data);
    silence = setTimeout(without, SILENCE_MS);
  };
  window.addEventListener("pagehide", () => {
    closeOwn();
    worker.port.onmessage = null; // what is under way would begin the silence anew
    worker.port.postMessage("bye");
    window.addEventListener("pageshow", restart, { once: true });
  }, { once: true });
}

/** The worker of all tabs; null where there is none, or where the reader lets nothing be kept. */
function shared() {
  try {
    return new SharedWorker(document.body.dataset.liveWorker, { type: "module", name: "etcron" });
  } catch {
    return null;
  }
}

/** The page was kept and is back: what it shows may be old. */
function restart() {
  start();
  tell("again", {});
}

/** In the order in which they came. @param {import("./stream.js").Message} message */
function take(message) {
  if (!isForeign) return heard(message);
  before = before.then(() => inWords(message)).catch(() => message).then(() => heard(message));
}

/** @param {import("./stream.js").Message} message */
function heard(message) {
  if (message.kind === "state") {
    status.state = message.state;
    status.sinceMs = message.sinceMs;
    tell("status", status);
    return;
  }
  const { name, data } = message;
  if (data.nowMs) heardNow(data.nowMs);
  if (name === "hello" || name === "poll") tell("again", data);
  if (name === "health") {
    status.health = data;
    tell("status", status);
  }
  tell(name, data);
}

/** @param {string} name @param {any} data */
function tell(name, data) {
  listeners.get(name)?.forEach((listener) => listener(data));
}
