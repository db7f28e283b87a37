/** The shared worker: one stream for all tabs of this browser. A tab that joins is told the newest state first. */
import { Stream } from "./stream.js";

const KEPT = ["hello", "health"];
/** @type {Set<MessagePort>} */
const ports = new Set();
/** @type {Map<string, any>} */
const kept = new Map();

const stream = new Stream((message) => {
  if (message.kind === "event" && KEPT.includes(message.name)) kept.set(message.name, message.data);
  ports.forEach((port) => port.postMessage(message));
});

self.addEventListener("connect", (/** @type {any} */ event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = () => ports.delete(port); // the tab says goodbye
  port.postMessage({ kind: "state", state: stream.state, sinceMs: stream.sinceMs });
  const health = kept.get("health");
  if (health) port.postMessage({ kind: "event", name: "health", data: health });
});
