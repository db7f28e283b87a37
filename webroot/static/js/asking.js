/** Asks with fields in a dialog; what is wrong with them is said there. */
import { ApiError } from "./api.js";
import { askFor } from "./dialogs.js";
import { fill, h, icon } from "./dom.js";
import { announce, toast } from "./notices.js";
import { faultOf } from "./said.js";
import { t } from "./text.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {{name: string, label: string, hint?: string, type?: string, value?: string, options?: [string, string][], attributes?: Record<string, unknown>}} Field */

/**
 * @param {{title: string, intro?: Child[], fields: Field[], action: string, tone?: "danger" | "primary",
 *   send: (values: Record<string, string>) => Promise<Child[] | void>}} question
 *   `send`: carries it out; what it gives takes the place of the question
 * @returns {Promise<boolean>} whether it was carried out
 */
export function askFields({ title, intro = [], fields, action, tone, send }) {
  const problem = h("div", { role: "alert" });
  const inputs = Object.fromEntries(fields.map((one) => [one.name, inputOf(one)]));
  const values = () => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, /** @type {HTMLInputElement} */ (input).value]));
  const body = [problem, ...intro, ...fields.map((one) => [
    h("label", { class: "form-label", for: `ask-${one.name}` }, one.label), inputs[one.name],
    one.hint && h("div", { class: "form-text", id: `ask-${one.name}-hint` }, one.hint),
  ]).flat()];
  const labels = Object.fromEntries(fields.map((one) => [one.name, one.label]));
  return askFor({ title, body, action, tone, focus: Object.values(inputs)[0], send: async () => {
    try {
      return (await send(values())) ?? [];
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const said = error.errors.length ? error.errors.map((one) => `${labels[one.field] ?? one.field}${t("colon")}${faultOf(one)}`) : [error.message];
      fill(problem, said.map((text) => h("p", { class: "note note-bad" }, icon("exclamation-triangle-fill"), h("span", {}, text))));
      if (problem.isConnected) announce(said.join(" "));
      else toast(`${title}${t("colon")}${said.join(" ")}`, "bad"); // the dialog was closed meanwhile
      return null;
    }
  } });
}

/** @param {Field} field */
function inputOf({ name, hint, type = "text", value = "", options, attributes = {} }) {
  const common = { class: "form-control", id: `ask-${name}`, name, "aria-describedby": hint ? `ask-${name}-hint` : null, ...attributes };
  if (options) return h("select", common, options.map(([code, text]) => h("option", { value: code, selected: code === value }, text)));
  if (type === "lines") {
    const area = h("textarea", { ...common, rows: 3 });
    area.textContent = value;
    return area;
  }
  return h("input", { autocomplete: "off", ...common, type, value });
}

/** Texts as they are written in a field: separated by commas or lines. @param {string} text */
export const listed = (text) => linesOf(text.replaceAll(",", "\n"));

/** The same of texts that may have commas. @param {string} text */
export const linesOf = (text) => text.split("\n").map((one) => one.trim()).filter(Boolean);
