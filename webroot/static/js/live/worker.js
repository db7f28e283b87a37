/** The shared worker: one stream for all tabs of this browser. A tab that joins is told the newest state and the time first. */
import { Stream } from "./stream.js";

/** @type {Set<MessagePort>} */
const ports = new Set();
/** The newest events that tell how something is now. @type {Map<string, any>} */
const states = new Map();
/** How far the manager's clock is ahead of this browser's, as it was last heard; null: not yet. */
let aheadMs = /** @type {number | null} */ (null);

const stream = new Stream((message) => {
  if (message.kind === "event" && message.name === "hello") states.clear(); // it may be another user's stream by now
  if (message.kind === "event" && ["health", "failing"].includes(message.name)) states.set(message.name, message.data);
  if (message.kind === "event" && message.data.nowMs) aheadMs = message.data.nowMs - Date.now();
  ports.forEach((port) => port.postMessage(message));
});

self.addEventListener("connect", (/** @type {any} */ event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = () => ports.delete(port); // the tab says goodbye
  port.postMessage({ kind: "state", state: stream.state, sinceMs: stream.sinceMs });
  if (aheadMs !== null) port.postMessage({ kind: "event", name: "ping", data: { nowMs: Date.now() + aheadMs } });
  states.forEach((data, name) => port.postMessage({ kind: "event", name, data }));
});
