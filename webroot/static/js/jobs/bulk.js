/** What is picked, on whatever page of the list, and the bar with what can be done to all of it. */
import { actOnAll } from "../actions.js";
import { offered } from "../caller.js";
import { byId, delegate, h } from "../dom.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";

const MOST = 500;

export class Picked {
  /** @param {import("./table.js").JobTable} table @param {() => void} done */
  constructor(table, done) {
    this.table = table;
    this.done = done;
    /** @type {Map<string, any>} */
    this.jobs = new Map();
    this.all = /** @type {HTMLInputElement} */ (byId("pick-all"));
    delegate(byId("jobs"), "change", "[data-pick]", (box) => this.pick([box.closest("tr").dataset.name], box.checked));
    this.all.addEventListener("change", () => this.pick(table.jobs.map((job) => job.name), this.all.checked));
  }

  /** @param {string[]} names @param {boolean} on */
  pick(names, on) {
    for (const name of names) {
      const job = this.table.job(name);
      if (on && job && this.jobs.size < MOST) this.jobs.set(name, job);
      else if (!on) this.jobs.delete(name);
    }
    this.draw();
  }

  draw() {
    const shown = this.table.jobs;
    for (const job of shown) if (this.jobs.has(job.name)) this.jobs.set(job.name, job);
    const here = shown.filter((job) => this.jobs.has(job.name)).length;
    const hadFocus = document.activeElement === this.all;
    this.all.disabled = !shown.length; // a choice of nothing would not stay
    if (hadFocus) this.focus();
    this.all.checked = shown.length > 0 && here === shown.length;
    this.all.indeterminate = here > 0 && here < shown.length;
    document.querySelectorAll("#jobs [data-pick]").forEach((box) => void (box.checked = this.jobs.has(box.closest("tr").dataset.name)));
    const bar = byId("bulk");
    bar.hidden = this.jobs.size === 0;
    redraw(bar, h("strong", { role: "status" }, t("bulk.picked", { n: this.jobs.size })),
      ["pause", "resume", "kill", "delete"].map((action) =>
        h("button", { type: "button", class: "btn btn-plain", onclick: () => this.act(action), ...this.offered(action) }, t(`action.${action}`))),
      h("button", { type: "button", class: "btn btn-quiet", onclick: () => this.clear() }, t("bulk.clear")));
  }

  /** Where one of them may not be touched, all of it is off. @param {string} action */
  offered(action) {
    return [...this.jobs.values()].map((job) => offered(action, job.spec?.labels)).find(({ disabled }) => disabled) ?? {};
  }

  /** @param {any} action */
  async act(action) {
    const jobs = [...this.jobs.values()];
    if (!(await actOnAll(action, jobs))) return;
    this.clear(jobs); // what was picked meanwhile stays picked
    this.done();
  }

  focus() {
    (this.all.disabled ? byId("search") : this.all).focus();
  }

  /** @param {any[]} [jobs] */
  clear(jobs = [...this.jobs.values()]) {
    const isHere = byId("bulk").contains(document.activeElement);
    jobs.forEach(({ name }) => this.jobs.delete(name));
    this.draw();
    if (isHere && byId("bulk").hidden) this.focus(); // else it is lost with the bar
  }
}
