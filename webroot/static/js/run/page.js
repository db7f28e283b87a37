/** One run: what is known of it, and what it prints, while it prints it. */
import { act } from "../actions.js";
import { get, jobPath, send } from "../api.js";
import { offered } from "../caller.js";
import { ask } from "../dialogs.js";
import { byId, delegate, h, icon } from "../dom.js";
import { jobUrl } from "../links.js";
import { on } from "../live/live.js";
import { note, said, toast } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { size, t } from "../text.js";
import { RETRIED } from "../verdicts.js";
import { showFacts, showSize } from "./facts.js";
import { Find } from "./find.js";
import { Follow } from "./follow.js";
import { showLife } from "./life.js";
import { keepOneStop, startLineLinks } from "./line_links.js";
import { Output } from "./output.js";
import { Progress } from "./progress.js";
import { OutputStream } from "./stream.js";
import { lineWanted, startTools } from "./tools.js";

/** A run that is going is looked at by itself, too: the event of its end may have been missed. */
const LOOK_MS = 5000;
/** A kill that is pending for so long: the worker cannot end the run. */
const OVERDUE_MS = 60_000;
/** One that waits to be claimed has no events. */
const WAITS_MS = 2000;
const OPENED_AT_END = [...RETRIED, "killed"];

/** @param {string} id */
export function start(id) {
  const page = new RunPage(id);
  return page.refresher.now();
}

class RunPage {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** @type {any} */
    this.run = null;
    /** Its job, as far as it is there still. @type {any} */
    this.job = null;
    this.look = 0;
    /** @type {OutputStream | null} */
    this.stream = null;
    this.isPlaced = false;
    this.output = new Output(byId("output"), { changed: () => this.grown() });
    this.follow = new Follow(this.output);
    this.find = new Find(this.output);
    this.progress = new Progress();
    this.refresher = new Refresher((signal) => this.load(signal), 1000);
    on(["again"], () => isChanging(this.run) && this.refresher.soon());
    on(["runs"], ({ jobs }) => isChanging(this.run) && (!this.run || this.run.jobName in jobs) && this.refresher.heard());
    startTools(id, this.output, this.follow);
    startLineLinks(this.output);
    delegate(byId("actions"), "click", "#kill, #give-up", ({ id: action }) => void this.end(action));
    delegate(byId("actions"), "click", "#again", () => void act("run", this.run.jobName));
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    try {
      this.run = await get(`/runs/${encodeURIComponent(this.id)}`, { signal });
      this.job ??= await get(jobPath(this.run.jobName), { signal }).catch((error) => { if (signal.aborted) throw error; return error.mayPass ? null : {}; });
      if (!this.job) this.refresher.later();
      note(byId("problem"), null);
      this.show();
    } catch (error) {
      if (signal.aborted) throw error;
      if (!this.run && [400, 404].includes(error.status)) return this.showUnknown(error.message);
      note(byId("problem"), error.message);
      if (error.mayPass) this.refresher.later();
    }
    byId("facts").setAttribute("aria-busy", "false");
    window.clearTimeout(this.look);
    if (isChanging(this.run)) this.look = window.setTimeout(() => this.refresher.soon(), this.run?.state === "created" ? WAITS_MS : LOOK_MS);
  }

  /** There is no such run: nothing of the page of one is left. @param {string} message */
  showUnknown(message) {
    const job = /^(.+?)(?:~[^@]*)?@/.exec(this.id)?.[1];
    byId("known").hidden = true;
    byId("facts").setAttribute("aria-busy", "false");
    redraw(byId("unknown"), said(message, "warn"),
      h("p", { class: "buttons-of" }, job && h("a", { class: "btn btn-plain", href: jobUrl(job) }, t("run.unknown.job", { job })), h("a", { class: "btn btn-plain", href: "/runs" }, t("run.unknown.runs"))));
  }

  show() {
    const { run, job, output } = this;
    showFacts(run, job?.spec?.timezone ?? "");
    showLife(byId("life"), run, job?.spec?.timezone ?? "");
    const isOpen = ["created", "claimed", "running"].includes(run.state);
    redraw(byId("actions"), this.buttons(isOpen));
    this.progress.of(run, job?.usualMs);
    this.follow.going(isOpen);
    if (isOpen && run.state !== "created") this.stream ??= this.listen();
    if (run.status) this.record();
    else if (!output.blocks.length) output.none(t(run.state === "created" || run.state === "claimed" ? "run.output.waits" : "run.output.later"));
    byId("output-tools").hidden = !output.blocks.length && !run.output;
    output.box.style.setProperty("--above", `${Math.round(output.box.getBoundingClientRect().top + window.scrollY)}px`);
    const isSeenAlone = run.status && !run.output && output.raw;
    redraw(byId("cut"), isSeenAlone ? said(t("run.output.seen"), "warn") : run.outputTruncated && said(t("run.cut", { printed: size(run.outputBytes) }), "warn"));
  }

  /** The record has all that it printed; where it was lost, what was seen of it stays. */
  record() {
    const { run, output, find } = this;
    this.stream?.close();
    byId("live-state").hidden = true;
    if (!run.output) return output.raw ? undefined : output.none(whyNone(run));
    const [isAtEnd, top] = [this.follow.isOn, output.box.scrollTop];
    if (!output.show(run.output)) return showSize(run, output.progress.count);
    if (find.field.value) find.search(); // else whoever goes from place to place would be at the first one again
    if (this.isPlaced && !isAtEnd) output.box.scrollTop = top;
  }

  /** There is more, or it has been drawn. */
  grown() {
    const { output, follow, find } = this;
    byId("output-tools").hidden = !output.blocks.length;
    byId("first-error").hidden = output.firstError < 0;
    showSize(this.run, output.progress.count);
    follow.grown();
    find.mark();
    keepOneStop(output);
    if (!this.isPlaced && output.box.dataset.complete) this.place();
  }

  /** Where a reader wants to begin: at the line of the address, at the end of what failed. */
  place() {
    const line = lineWanted();
    if (line && this.output.point(line)) {
      this.isPlaced = true;
      this.follow.turn(false);
    } else if (this.run?.status) {
      this.isPlaced = true;
      if (!line && OPENED_AT_END.includes(this.run.status)) this.follow.toEnd();
    }
  }

  listen() {
    const { output } = this;
    byId("live-state").hidden = false;
    return new OutputStream(this.id, {
      chunk: ({ text }) => void output.add(text),
      gap: ({ from, to }) => void output.add(`${output.raw && !output.raw.endsWith("\n") ? "\n" : ""}... ${to - from} bytes cut ...\n`),
      progress: (said) => this.progress.heard(said),
      state: ({ state, why }) => this.heard(state, why),
      end: () => this.refresher.heard(),
    });
  }

  /** @param {string} state of the stream @param {string} [why] */
  heard(state, why) {
    const box = byId("live-state");
    box.className = `live-state is-${state}`;
    redraw(box, icon(state === "unavailable" ? "exclamation-triangle-fill" : "circle-fill"), " ", t(`run.live.${state}`), why && state === "unavailable" && `: ${why}`);
  }

  /** @param {boolean} isOpen */
  buttons(isOpen) {
    const { run } = this;
    const isEnding = run.state === "ending";
    const button = (/** @type {string} */ action, /** @type {string} */ look, /** @type {string} */ glyph, word = action) => h("button", { type: "button", class: `btn ${look}`, id: action, ...offered(word, run.labels) }, icon(glyph), " ", t(`action.${word}`));
    return [
      !isOpen && this.job?.name && button("again", "btn-plain", "play-fill", "run"),
      isOpen && button("kill", "btn-danger", "x-octagon"),
      (isEnding || (isOpen && run.killPendingMs >= OVERDUE_MS)) && button("give-up", "btn-danger", "slash-circle"),
    ];
  }

  /** @param {string} action to kill it, or to give it up */
  async end(action) {
    const { jobName: job, worker = "" } = this.run;
    const body = [h("p", {}, t(worker ? `ask.${action}.run` : "ask.kill.run.waiting", { job, worker }))];
    const label = t(action === "kill" ? "reason" : "reason.needed");
    const reason = await ask({ title: `${t(`action.${action}`)}: ${job}`, body, action: t(`action.${action}`), tone: "danger", reason: label });
    if (reason === null) return;
    try {
      const { message, outcome } = await send("POST", `/runs/${encodeURIComponent(this.id)}/${action}`, { body: reason ? { reason } : {} });
      toast(message || outcome);
    } catch (error) {
      toast(error.message, "bad");
    }
    void this.refresher.now();
  }
}

/** Whether there is more to come of it. @param {any} run */
const isChanging = (run) => !run?.status || run.state === "ending";

/** Of a lost run nobody knows whether it printed anything, and often not whether it had started. @param {any} run */
function whyNone({ status, startTime }) {
  if (status === "lost") return t("run.output.lost");
  return t(startTime ? "run.no.output" : "run.not.started");
}
