/** What is picked, on whatever page of the list, and the bar with what can be done to all of it. */
import { actOnAll } from "../actions_on_all.js";
import { ApiError, get } from "../api.js";
import { offered } from "../caller.js";
import { byId, delegate, h } from "../dom.js";
import { announce, toast } from "../notices.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";
import { query } from "./query.js";

/** So many at once. */
const MOST = 5000;
/** Of those that match, so many are asked for at a time. */
const A_CALL = 500;
const ACTIONS = /** @type {const} */ (["run", "pause", "resume", "label", "kill", "delete"]);

export class Picked {
  /** @param {import("./table.js").JobTable} table @param {() => void} done */
  constructor(table, done) {
    this.table = table;
    this.done = done;
    /** @type {Map<string, any>} */
    this.jobs = new Map();
    /** How many match what is asked for; null: not known. @type {number | null} */
    this.total = null;
    /** The filters of which all that match have been picked. */
    this.allOf = "";
    /** Whether all that match are being picked: a number for each time. */
    this.turn = 0;
    this.isGathering = false;
    this.all = /** @type {HTMLInputElement} */ (byId("pick-all"));
    delegate(byId("jobs"), "change", "[data-pick]", (box) => this.pick([box.closest("tr").dataset.name], box.checked));
    this.all.addEventListener("change", () => this.pick(table.jobs.map((job) => job.name), this.all.checked));
  }

  /** @param {string[]} names @param {boolean} on */
  pick(names, on) {
    if (!on) this.allOf = "";
    for (const name of names) {
      const job = this.table.job(name);
      if (on && job && this.jobs.size < MOST) this.jobs.set(name, job);
      else if (!on) this.jobs.delete(name);
    }
    this.draw();
  }

  /** @param {number | null} [total] how many match */
  draw(total = this.total) {
    this.total = total;
    const shown = this.table.jobs;
    for (const job of shown) if (this.jobs.has(job.name)) this.jobs.set(job.name, job);
    const here = shown.filter((job) => this.jobs.has(job.name)).length;
    const hadFocus = document.activeElement === this.all;
    this.all.disabled = !shown.length; // a choice of nothing would not stay
    if (hadFocus) this.focus();
    this.all.checked = shown.length > 0 && here === shown.length;
    this.all.indeterminate = here > 0 && here < shown.length;
    document.querySelectorAll("#jobs [data-pick]").forEach((box) => void (box.checked = this.jobs.has(box.closest("tr").dataset.name)));
    const bar = byId("bulk"), { size } = this.jobs;
    bar.hidden = size === 0;
    const isAll = this.allOf === filters();
    const more = !isAll && !this.isGathering && total !== null && total > size;
    redraw(bar, h("strong", { role: "status" }, t(this.isGathering ? "bulk.gathering" : isAll && size === total ? "bulk.picked.all" : "bulk.picked", { n: size })),
      more && h("button", { type: "button", class: "btn btn-quiet", id: "pick-matching", onclick: () => void this.pickMatching() }, t(total > MOST ? "bulk.pick.most" : "bulk.pick.matching", { n: Math.min(total, MOST) })),
      ACTIONS.map((action) =>
        h("button", { type: "button", class: "btn btn-plain", "data-key": action, onclick: () => this.act(action), ...this.offered(action) }, t(`action.${action}`))),
      h("button", { type: "button", class: "btn btn-quiet", "data-key": "clear", onclick: () => this.clear() }, t("bulk.clear")));
  }

  /** All that match, on whatever page; of more than can be acted on the first ones. */
  async pickMatching() {
    const turn = ++this.turn, wanted = query(), of = filters();
    this.isGathering = true;
    try {
      for (let cursor = ""; cursor !== null && this.jobs.size < MOST;) {
        const page = await get("/jobs", { query: { ...wanted, cursor, limit: A_CALL } });
        if (turn !== this.turn) return; // it was called off
        for (const { name, revision, state, running, spec } of page.items) if (this.jobs.size < MOST) this.jobs.set(name, { name, revision, state, running, spec: { labels: spec?.labels } });
        cursor = page.nextCursor;
        this.draw();
      }
      this.allOf = of;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, "bad");
    } finally {
      if (turn === this.turn) {
        this.isGathering = false;
        this.draw();
        announce(t("bulk.picked", { n: this.jobs.size }));
      }
    }
  }

  /** Where one of them may not be touched, all of it is off. @param {string} action */
  offered(action) {
    if (this.isGathering) return { disabled: true };
    return [...this.jobs.values()].map((job) => offered(action, job.spec?.labels)).find(({ disabled }) => disabled) ?? {};
  }

  /** @param {import("../actions_on_all.js").ManyAction} action */
  async act(action) {
    const jobs = [...this.jobs.values()].map((kept) => this.table.job(kept.name) ?? { ...kept, running: null }); // events tell of those shown alone
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
    this.turn++;
    Object.assign(this, { isGathering: false, allOf: "" });
    jobs.forEach(({ name }) => this.jobs.delete(name));
    this.draw();
    if (isHere && byId("bulk").hidden) this.focus(); // else it is lost with the bar
  }
}

function filters() {
  const { q, state, label } = query();
  return JSON.stringify([q, state, label]);
}
