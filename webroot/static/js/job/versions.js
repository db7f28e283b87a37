/** What a job was: who changed what, any two versions field by field, and the way back; of a deleted job, too. */
import { get, jobPath, send } from "../api.js";
import { mayAnything } from "../caller.js";
import { ask } from "../dialogs.js";
import { byId, fill, h, icon } from "../dom.js";
import { grid } from "../grid.js";
import { announce, note, toast } from "../notices.js";
import { Refresher } from "../refresher.js";
import { stamp } from "../stamp.js";
import { listed, t, word } from "../text.js";
import { wrote } from "../written.js";
import { differences, inline, nameOf } from "./definition.js";

/** What was done, and to which fields, small changes in full; a pause says why. @param {any} version */
function whatOf({ action, changed, changes = [], pausedReason }) {
  const isSaid = (/** @type {string} */ field) => field === "enabled" && (action === "pause" || action === "resume");
  const known = new Set(changes.map((/** @type {any} */ one) => one.field));
  const others = changed.filter((/** @type {string} */ field) => !isSaid(field) && !known.has(field));
  return [action ? word("change", action) : t("versions.first"), pausedReason && `: ${pausedReason}`,
    ...changes.filter((/** @type {any} */ one) => !isSaid(one.field)).map(inline), others.length > 0 && h("div", { class: "sub" }, listed(others.map(nameOf)))];
}

export class Versions {
  /** @param {string} name @param {() => void} restored @param {() => void} later it may be loaded in a while */
  constructor(name, restored, later) {
    this.name = name;
    this.restored = restored;
    this.later = later;
    this.path = `${jobPath(name)}/versions`;
    /** @type {any[]} newest first */
    this.items = [];
    /** The revisions that are compared; `to` null: the newest. */
    this.from = /** @type {number | null} */ (null);
    this.to = /** @type {number | null} */ (null);
    this.comparing = new Refresher((signal) => this.compare(signal));
    this.loads = 0;
    this.shown = 0;
  }

  /** @param {AbortSignal} [signal] @returns {Promise<any>} the answer, or null */
  async load(signal) {
    const turn = (this.loads += 1);
    try {
      const answer = await get(this.path, { signal });
      if (turn < this.shown) return answer; // a newer one is shown
      this.shown = turn;
      this.items = answer.items;
      note(byId("versions-problem"), null);
      this.draw();
      return answer;
    } catch (error) {
      if (signal?.aborted) throw error;
      note(byId("versions-problem"), error.message, error.status === 404 ? "info" : "bad");
      if (error.mayPass) this.later();
      return null;
    }
  }

  draw() {
    const box = byId("versions");
    const drawn = JSON.stringify(this.items);
    if (box.dataset.drawn === drawn) return;
    box.dataset.drawn = drawn;
    const focused = box.contains(document.activeElement) ? document.activeElement?.id : null;
    const columns = [
      { key: "revision", draw: (/** @type {any} */ one) => [String(one.revision), one.current && h("div", { class: "sub" }, icon("check2"), " ", t("versions.current"))] },
      { key: "when", draw: (/** @type {any} */ one) => [stamp(one.savedMs), h("div", { class: "sub" }, stamp(one.savedMs, { as: "ago" }))] },
      { key: "who", draw: (/** @type {any} */ one) => one.savedBy, className: "wraps" },
      { key: "what", draw: whatOf, className: "wraps" },
      { key: "actions", draw: (/** @type {any} */ one) => this.buttons(one) },
    ];
    fill(box, h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": t("versions.title") }, grid(t("versions.title"), columns, this.items, "auto stack versions")), this.chooser());
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    if (this.from !== null) void this.comparing.now();
  }

  /** @param {any} version */
  buttons({ revision, current }) {
    const button = (/** @type {string} */ what, /** @type {string} */ glyph, /** @type {() => void} */ onclick) =>
      h("button", { type: "button", class: "btn btn-plain", id: `${what}-${revision}`, "aria-label": `${t(`versions.${what}`)}: ${revision}`, onclick }, icon(glyph), " ", t(`versions.${what}`));
    if (current) return null;
    return h("div", { class: "buttons-of" },
      this.items.length > 1 && button("compare", "list-ul", () => this.choose(revision, null)), mayAnything("editor") && button("restore", "clock-history", () => void this.restore(revision)));
  }

  /** Two fields, for any two of them. */
  chooser() {
    if (this.items.length < 2) return null;
    const select = (/** @type {"from" | "to"} */ name, /** @type {number} */ chosen) => h("span", {}, h("label", { for: `compare-${name}` }, t(`versions.${name}`)), " ",
      h("select", { class: "form-control", id: `compare-${name}`, onchange: (/** @type {any} */ event) => this.choose(this.from ?? this.items[1].revision, this.to, { [name]: Number(event.target.value) }) },
        this.items.map((one) => h("option", { value: one.revision, selected: one.revision === chosen }, `${one.revision}${one.current ? ` (${t("versions.current")})` : ""}`))));
    return h("div", { class: "compare-of" }, select("from", this.from ?? this.items[1].revision), select("to", this.to ?? this.items[0].revision));
  }

  /** @param {number} from @param {number | null} to null: the newest @param {{from?: number, to?: number}} [change] */
  choose(from, to, change = {}) {
    Object.assign(this, { from, to, ...change });
    for (const [name, value] of Object.entries({ from: this.from, to: this.to ?? this.items[0].revision })) {
      const field = document.getElementById(`compare-${name}`);
      if (field) /** @type {HTMLSelectElement} */ (field).value = String(value);
    }
    void this.comparing.now();
  }

  /** @param {AbortSignal} signal */
  async compare(signal) {
    const box = byId("comparison");
    try {
      const found = await get(`${this.path}/${this.from}/compare`, { query: { to: this.to ?? this.items[0].revision }, signal });
      const title = t("versions.compared", { from: String(found.from), to: String(found.to) });
      fill(box, h("h2", {}, title), differences(title, found.changes));
      announce(`${title}: ${t("versions.changes", { n: found.changes.length })}`);
    } catch (error) {
      if (signal.aborted) throw error;
      note(box, error.message);
    }
  }

  /** @param {number} revision */
  async restore(revision) {
    const newest = this.items[0];
    const current = newest?.current ? newest : null;
    try {
      const { changes } = current ? await get(`${this.path}/${current.revision}/compare`, { query: { to: revision } }) : { changes: null };
      const title = t("versions.restore");
      const body = [h("p", {}, t(current ? "ask.restore" : "ask.restore.deleted", { name: this.name, revision: String(revision) })), changes && differences(title, changes)];
      if ((await ask({ title: `${title}: ${this.name}`, body, action: title })) === null) return;
      const headers = current ? { "If-Match": `"${current.revision}"` } : { "If-None-Match": "*" };
      const { job, changed } = await send("POST", `${this.path}/${revision}/restore`, { body: {}, headers: /** @type {any} */ (headers) });
      wrote(this.name, job?.revision);
      toast(t(changed ? "done.restore" : "done.restore.same", { name: this.name, revision: String(revision) }));
      this.from = null;
      fill(byId("comparison"));
      this.restored();
    } catch (error) {
      toast(error.status === 412 ? t("versions.stale") : error.message, "bad");
      await this.load();
    }
  }
}
