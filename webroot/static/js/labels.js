/** Labels that a binding reaches, in words and as they are typed. */
import { listed } from "./asking.js";
import { t } from "./text.js";

/** @typedef {"all" | Record<string, string[]>} Selector */

/** @param {Selector | undefined} selector */
export function spelled(selector) {
  if (!selector) return "";
  if (selector === "all") return t("access.all");
  return Object.entries(selector).map(([name, values]) => `${name}=${values.join("|")}`).join(", ");
}

/** What somebody has typed: `all`, or `team=billing|sales, env=test`. @param {string} text @returns {Selector} */
export function selectorOf(text) {
  if (text.trim() === "all") return "all";
  const pairs = listed(text).map((one) => one.split("="));
  return Object.fromEntries(pairs.map(([name, ...rest]) => [name.trim(), rest.join("=").split("|").map((value) => value.trim()).filter(Boolean)]));
}
