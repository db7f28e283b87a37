/** The rows of the list, by name. They are changed in place, cell by cell. */
import { h } from "../dom.js";
import { redraw } from "../redraw.js";
import { t } from "../text.js";
import { COLUMNS } from "./cells.js";

/** @typedef {import("./cells.js").JobRow} JobRow */
/** @typedef {{element: HTMLElement, job: JobRow, drawn: Map<string, string>}} Row */

/** What a row becomes by what was heard of its runs. @param {any} heard @returns {Partial<JobRow>} */
export const changeOf = ({ running, last, lastRun, recent }) => (last ? { running, recent, lastResult: last, lastRun } : { running });

export class JobTable {
  /** @param {HTMLElement} body a tbody */
  constructor(body) {
    this.body = body;
    /** @type {Map<string, Row>} */
    this.rows = new Map();
  }

  /** @returns {JobRow[]} */
  get jobs() {
    return [...this.rows.values()].map((row) => row.job);
  }

  /** @param {string} name @returns {JobRow | undefined} */
  job(name) {
    return this.rows.get(name)?.job;
  }

  /** Shows exactly these, in this order. @param {JobRow[]} jobs @param {(name: string) => boolean} isPicked */
  show(jobs, isPicked) {
    const wanted = new Set(jobs.map((job) => job.name));
    const focused = [...this.body.children].indexOf(document.activeElement?.closest("[data-row]"));
    for (const [name, row] of this.rows) {
      if (wanted.has(name)) continue;
      row.element.remove();
      this.rows.delete(name);
    }
    /** @type {Map<string, Row>} */
    const ordered = new Map();
    jobs.forEach((job, index) => {
      const row = this.rows.get(job.name) ?? blank(job);
      ordered.set(job.name, row);
      if (this.body.children[index] !== row.element) this.body.insertBefore(row.element, this.body.children[index] ?? null);
      draw(row, job);
      row.element.querySelector("input").checked = isPicked(job.name);
    });
    this.rows = ordered;
    // What had the focus is gone: what has its place now has it, else it would be lost.
    if (focused >= 0 && !this.body.contains(document.activeElement)) [...this.body.querySelectorAll(".row-name")].at(Math.min(focused, jobs.length - 1))?.focus({ preventScroll: true });
  }

  /** What has been heard of a job. @param {string} name @param {Partial<JobRow>} change @returns {boolean} whether it is shown */
  update(name, change) {
    const row = this.rows.get(name);
    if (row) draw(row, { ...row.job, ...change });
    return Boolean(row);
  }
}

/** @param {JobRow} job @returns {Row} */
function blank(job) {
  const pick = h("input", { type: "checkbox", "data-pick": true, "aria-label": t("jobs.pick", { name: job.name }) });
  const cells = COLUMNS.map(({ name }) => h("td", { role: "cell", class: `c-${name}` }));
  const element = h("tr", { role: "row", "data-row": true, "data-name": job.name }, h("td", { role: "cell", class: "c-pick" }, pick), cells);
  return { element, job, drawn: new Map() };
}

/** @param {Row} row @param {JobRow} job */
function draw(row, job) {
  row.job = job;
  row.element.className = `is-${job.state}`;
  COLUMNS.forEach(({ name, of, draw: drawCell }, index) => {
    const key = JSON.stringify(of(job));
    if (row.drawn.get(name) === key) return;
    row.drawn.set(name, key);
    redraw(row.element.children[index + 1], drawCell(job));
  });
}

