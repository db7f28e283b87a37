/** The parts of a job's page, one at a time; the address says which. */
import { byId } from "../dom.js";

/** What stood at these places before there were tabs. @type {Record<string, string>} */
const FORMER = { log: "runs", "versions-of": "versions" };

export class Tabs {
  /** @param {(tab: string) => void} changed another one is open */
  constructor(changed) {
    this.buttons = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-tab]")]);
    this.names = this.buttons.map((button) => button.dataset.tab ?? "");
    this.changed = changed;
    this.open = this.named();
    this.draw();
    for (const button of this.buttons) {
      button.addEventListener("click", () => this.choose(button.dataset.tab ?? ""));
      button.addEventListener("keydown", (event) => this.step(event));
    }
    window.addEventListener("hashchange", () => this.show(this.named()));
  }

  /** The one that the address names. */
  named() {
    const name = window.location.hash.slice(1);
    const tab = FORMER[name] ?? name;
    return this.names.includes(tab) ? tab : this.names[0];
  }

  /** @param {string} tab */
  choose(tab) {
    window.history.replaceState(null, "", `${window.location.pathname}${window.location.search}${tab === this.names[0] ? "" : `#${tab}`}`);
    this.show(tab);
  }

  /** @param {string} tab */
  show(tab) {
    if (tab === this.open) return;
    this.open = tab;
    this.draw();
    byId(`tab-${tab}`).scrollIntoView({ block: "nearest", inline: "nearest" });
    this.changed(tab);
  }

  draw() {
    for (const button of this.buttons) {
      const isOpen = button.dataset.tab === this.open;
      button.setAttribute("aria-selected", String(isOpen));
      button.tabIndex = isOpen ? 0 : -1;
      byId(`panel-${button.dataset.tab}`).hidden = !isOpen;
    }
  }

  /** @param {KeyboardEvent} event */
  step(event) {
    const at = this.buttons.indexOf(/** @type {HTMLElement} */ (event.target));
    const last = this.buttons.length - 1;
    const next = { ArrowLeft: at ? at - 1 : last, ArrowRight: at < last ? at + 1 : 0, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.choose(this.names[next]);
    this.buttons[next].focus();
  }
}
