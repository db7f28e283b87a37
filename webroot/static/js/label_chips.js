/** Labels, and the way to the jobs that have them. */
import { h } from "./dom.js";
import { t } from "./text.js";

/** @param {any} spec @returns {string[]} */
export const labelsOf = (spec) => Object.entries(spec?.labels ?? {}).map(([name, value]) => `${name}=${value}`);

/** @param {string} label */
export const labelChip = (label) => h("a", { class: "label", href: `/jobs?label=${encodeURIComponent(label)}`, "data-label": label, title: t("jobs.with.label", { label }) }, label);
