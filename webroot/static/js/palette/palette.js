/** The command palette: jobs, runs, pages and what can be done to the job at hand, by typing. Loaded when it is opened. */
import { h, icon, nodes } from "../dom.js";
import { t } from "../text.js";
import { actionsAtHand } from "./at_hand.js";
import { jobsLike, pagesLike, runsLike, stillLike } from "./finding.js";

/** @typedef {{glyph: string, label: string, hint?: string, isOfText?: boolean, go: () => void}} Entry `isOfText`: where it leads depends on what was typed */
/** @typedef {{title: string, entries: Entry[], problem?: string}} Group `problem`: why nobody knows what there is */

const PAUSE_MS = 250;

class Palette {
  constructor() {
    /** @type {Entry[]} in the order in which they are shown */
    this.entries = [];
    /** @type {Group[]} those that were found by the server, for what was typed then */
    this.found = [];
    this.at = 0;
    this.hasMoved = false;
    /** Whether an answer to what is typed is to come. */
    this.isAsking = false;
    this.typing = 0;
    this.asked = new AbortController();
    this.hand = actionsAtHand(() => this.draw());
    this.input = /** @type {HTMLInputElement} */ (h("input", {
      class: "form-control", type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", maxlength: 200, "aria-expanded": "true", "aria-autocomplete": "list",
      "aria-controls": "palette-list", "aria-label": t("palette.open"), placeholder: t("palette.hint"),
      oninput: () => this.typed(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
    }));
    this.list = h("div", { role: "listbox", id: "palette-list", "aria-label": t("palette.open"), onclick: (/** @type {Event} */ event) => this.choose(/** @type {Element} */ (event.target)) });
    this.none = h("p", { class: "muted", role: "status" });
    this.dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "palette", "aria-label": t("palette.open"), onclose: () => this.closed() }, this.input, this.list, this.none));
    this.dialog.addEventListener("click", ({ target }) => target === this.dialog && this.dialog.close());
  }

  /** @param {string} text that is typed already */
  open(text) {
    document.body.append(this.dialog);
    this.input.value = text;
    this.typed();
    this.dialog.showModal();
    this.input.focus();
  }

  closed() {
    window.clearTimeout(this.typing);
    this.asked.abort();
    this.dialog.remove();
  }

  get text() {
    return this.input.value.trim();
  }

  typed() {
    this.at = 0;
    this.hasMoved = false;
    this.found = this.found.map((group) => stillLike(group, this.text.toLowerCase()));
    this.asked.abort(); // its answer is to what was typed before
    window.clearTimeout(this.typing);
    this.isAsking = Boolean(this.text);
    this.draw();
    if (this.text) this.typing = window.setTimeout(() => void this.ask(), PAUSE_MS);
  }

  async ask() {
    this.asked.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const jobs = await jobsLike(this.text, signal);
    if (signal.aborted) return;
    this.isAsking = false;
    this.found = [jobs];
    this.draw();
  }

  draw() {
    const { text, at } = this;
    const chosen = this.hasMoved && this.entries[at]; // with the arrows: what is found meanwhile does not move it
    const wanted = text.toLowerCase();
    const actions = { ...this.hand, entries: this.hand.entries.filter(({ label }) => label.toLowerCase().includes(wanted)) };
    const groups = [actions, runsLike(text), ...this.found, pagesLike(wanted)].filter(({ entries }) => entries.length);
    this.entries = groups.flatMap(({ entries }) => entries);
    const still = this.entries.findIndex(({ glyph, label }) => chosen && chosen.glyph === glyph && chosen.label === label);
    this.at = still >= 0 ? still : Math.min(at, Math.max(0, this.entries.length - 1));
    let index = 0;
    this.list.replaceChildren(...groups.map(({ title, entries }, number) => h("div", { role: "group", "aria-labelledby": `palette-group-${number}` },
      h("div", { class: "palette-title", id: `palette-group-${number}`, role: "presentation" }, title), entries.map((entry) => option(entry, index++)))));
    this.none.replaceChildren(...nodes([this.found[0]?.problem ?? (this.entries.length || this.isAsking ? "" : t("palette.none"))]));
    this.mark();
  }

  mark() {
    this.list.querySelectorAll("[role=option]").forEach((one, index) => one.setAttribute("aria-selected", String(index === this.at)));
    const marked = document.getElementById(`palette-${this.at}`);
    marked?.scrollIntoView({ block: "nearest" });
    if (marked) this.input.setAttribute("aria-activedescendant", marked.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.isComposing) return; // of a word in Chinese
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step && event.key !== "Enter") return;
    event.preventDefault();
    if (step) {
      this.hasMoved = true;
      this.at = (this.at + step + this.entries.length) % Math.max(1, this.entries.length);
      this.mark();
    } else {
      this.go(this.entries[this.at]);
    }
  }

  /** @param {Element} target */
  choose(target) {
    const chosen = target.closest("[role=option]");
    if (chosen) this.go(this.entries[Number(chosen.id.replace("palette-", ""))]);
  }

  /** @param {Entry | undefined} entry */
  go(entry) {
    if (!entry) return;
    this.dialog.close();
    entry.go();
  }
}

/** @param {Entry} entry @param {number} index */
function option({ glyph, label, hint }, index) {
  return h("div", { role: "option", id: `palette-${index}`, "aria-selected": "false" }, icon(glyph), h("span", {}, label), hint && h("span", { class: "muted" }, hint));
}

/** @param {string} text that is typed already */
export const open = (text) => new Palette().open(text);
