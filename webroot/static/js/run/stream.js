/** What a run that is going prints, as the manager streams it. After a break it goes on where it was. */
import { streamed } from "../api.js";

const AGAIN_MS = [1000, 2000, 5000];
const TOO_MANY = 429;

/** @typedef {{chunk: (data: any) => void, gap: (data: any) => void, progress: (data: any) => void, state: (data: any) => void, end: (data: any) => void}} Heard */

export class OutputStream {
  /** @param {string} id of the run @param {Heard} heard */
  constructor(id, heard) {
    this.path = `/runs/${encodeURIComponent(id)}/output?follow=true`;
    this.heard = heard;
    this.lastId = "";
    this.failures = 0;
    this.timer = 0;
    this.going = new AbortController();
    this.isOver = false;
    window.addEventListener("pagehide", () => this.pause());
    window.addEventListener("pageshow", ({ persisted }) => persisted && this.open());
    void this.open();
  }

  async open() {
    if (this.isOver) return;
    this.going = new AbortController();
    try {
      const answer = await streamed(this.path, { signal: this.going.signal, headers: this.lastId ? { "Last-Event-ID": this.lastId } : {} });
      if (answer.status >= 400 && answer.status < 500 && answer.status !== TOO_MANY) return; // the page of the run says why
      if (answer.ok && (await this.read(answer.body))) return;
    } catch {
      // somebody went away; tried again below
    }
    if (this.going.signal.aborted) return;
    this.timer = window.setTimeout(() => void this.open(), AGAIN_MS[Math.min(this.failures, AGAIN_MS.length - 1)]);
    this.failures += 1;
  }

  /** The record has taken over. */
  close() {
    this.isOver = true;
    this.pause();
  }

  pause() {
    window.clearTimeout(this.timer);
    this.going.abort();
  }

  /** @param {ReadableStream<Uint8Array>} body @returns {Promise<boolean>} whether the run has ended */
  async read(body) {
    let text = "";
    for (const reader = body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
      const { value, done } = await reader.read();
      if (done) return false;
      const events = (text + value).split(/\r?\n\r?\n/);
      text = events.pop();
      for (const event of events) if (this.take(event)) return true;
    }
  }

  /** @param {string} event as it came @returns {boolean} whether it was the last */
  take(event) {
    const fields = event.split(/\r?\n/).map((line) => /^(\w+): ?(.*)$/.exec(line)).filter(Boolean);
    const of = (/** @type {string} */ name) => fields.filter(([, field]) => field === name).map(([, , value]) => value).join("\n");
    const name = of("event");
    if (of("id")) this.lastId = of("id");
    if (!(name in this.heard)) return false;
    this.failures = 0;
    this.heard[name](JSON.parse(of("data") || "{}"));
    return name === "end";
  }
}
