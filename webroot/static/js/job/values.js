/** Parts of a job as people read them, on pages without its definition, too. */
import { h } from "../dom.js";
import { visible } from "../printed.js";
import { t } from "../text.js";

/** The expressions of a job, each by itself. @param {string | string[] | null} cronExpr */
export const expressions = (cronExpr) => [cronExpr ?? []].flat();

/** A line for the shell as it is; a program with its arguments one by one, so that each is seen where it begins and ends. @param {string | string[]} command */
export function commandOf(command) {
  if (!Array.isArray(command)) return h("code", { class: "command" }, visible(command));
  return h("ol", { class: "arguments command", "aria-label": t("job.arguments") }, command.map((one) => h("li", {}, h("code", {}, one === "" ? '""' : visible(one)))));
}

/** Names with their values, each in one text. @param {Record<string, any>} pairs */
export const pairsOf = (pairs) => Object.entries(pairs).map(([name, values]) => `${name}=${[values].flat().map(textOf).join("|")}`);

/** A link to another site, which learns nothing of this one. @param {string} title @param {string} url */
export const outside = (title, url) => (/^https?:/.test(url) ? h("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, visible(title)) : visible(url));

/** @param {any} value */
export const textOf = (value) => visible(typeof value === "string" ? value : JSON.stringify(value));
