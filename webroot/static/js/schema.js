/** A job field by field, as the manager defines it: from the JSON Schema that the page came with (`x-form`: common/jobs/kinds.py). */
import { byId } from "./dom.js";
import { t, word } from "./text.js";

/**
 * What has a value of its own, also within an object (`retry.limit`). Its words are the definition's, where the catalog of
 * the language has no others. `input`: a key of form/kinds.js; `choices`: by value, what it is called and what it means.
 * `members`: of a list of objects, what each has.
 * @typedef {{path: string, label: string, hint: string, unset: string, absent: string, section: string, input: string,
 *   unit?: string, of?: string, hasList: boolean, members: Field[], values?: string[], choices: Map<string, {label: string, means: string}>, default: any}} Field
 */

/** So many words are offered at once; of more one types the beginning. */
const CHOICES = 20;

const schema = JSON.parse(byId("job-schema").textContent);

/** What a schema takes beside null. @param {any} own @returns {any[]} */
const kindsOf = (own) => (own.anyOf ?? [own]).filter((/** @type {any} */ one) => one.type !== "null");
/** @param {string} type */
const isOf = (type) => (/** @type {any} */ one) => one.type === type;
/** @param {string} meaning */
const sentence = (meaning) => `${meaning[0].toUpperCase()}${meaning.slice(1)}.`;

/** What makes a job fire, each with what it rules out. @type {Map<string, string[]>} */
const RULES = new Map(schema.anyOf.map((/** @type {any} */ { required: [trigger], properties }) => [trigger, Object.keys(properties).filter((path) => path !== trigger)]));
/** A job has one of them. */
export const TRIGGERS = [...RULES.keys()];
/** The fields that have to keep their defaults beside a trigger. @param {string} trigger */
export const ruledOut = (trigger) => RULES.get(trigger) ?? [];
/** All that says when; the preview is made from these. @type {string[]} */
export const TIMING = schema["x-timing"];
/** Of the form. @type {string[]} */
export const SECTIONS = schema["x-sections"];

/** The labels of fields that have fields of their own. @type {Map<string, string>} */
const GROUPS = new Map();
/** @type {Map<string, Field>} */
export const FIELDS = new Map(fieldsOf(schema.properties).map((field) => [field.path, field]));
export const PATHS = [...FIELDS.keys()];
/** What a field has when nobody has said anything. @type {Record<string, any>} */
export const DEFAULTS = Object.fromEntries([...FIELDS].map(([path, field]) => [path, field.default]));

/** What goes with one trigger or another, and with no other. */
export const OF_TRIGGERS = [...FIELDS.values()].filter(({ path, section }) => section === "when" && TRIGGERS.some((one) => ruledOut(one).includes(path))).map(({ path }) => path);

/** One that this version does not know is called as in the API. @param {string} path */
export const labelOf = (path) => FIELDS.get(path)?.label ?? GROUPS.get(path) ?? path;
/** @param {string} path @param {any} value */
export const choiceOf = (path, value) => FIELDS.get(path)?.choices.get(String(value))?.label;
/** Whether it is an object of fields. @param {string} path */
export const isGroup = (path) => GROUPS.has(path);

/** @param {Record<string, any>} properties @param {{path: string, section: string, default: any} | null} [outer] @returns {Field[]} */
function fieldsOf(properties, outer = null) {
  return Object.entries(properties).flatMap(([name, own]) => {
    const path = outer ? `${outer.path}.${name}` : name;
    const [inner] = kindsOf(own);
    const section = outer?.section ?? own["x-form"]?.section ?? SECTIONS.at(-1);
    if (!inner.properties || own["x-form"]?.input) return [fieldOf(path, own, section, outer?.default[name])];
    GROUPS.set(path, word("field", path, own.title));
    return fieldsOf(inner.properties, { path, section, default: own.default });
  });
}

/** @param {string} path @param {any} own @param {string} section @param {any} within its default within an object @returns {Field} */
function fieldOf(path, own, section, within) {
  const shown = own["x-form"] ?? {};
  const kinds = kindsOf(own);
  const say = (/** @type {string} */ key, /** @type {string} */ text) => word("field", `${path}.${key}`, text.replaceAll("`", ""));
  const number = kinds.find(({ minimum }) => minimum !== undefined);
  const values = kinds.find((one) => one.enum)?.enum;
  const items = kinds.find((one) => one.items)?.items;
  const offered = new Set([...Object.keys(shown.choices ?? {}), ...(values?.length > CHOICES ? [] : (values ?? []))]);
  return {
    path, section, values, unit: number?.["x-unit"], of: items?.type, input: inputOf(shown, kinds, values),
    members: Object.entries(items?.properties ?? {}).map(([name, one]) => fieldOf(`${path}.${name}`, one, section, undefined)),
    hasList: kinds.some(({ additionalProperties }) => additionalProperties && kindsOf(additionalProperties).some(isOf("array"))),
    label: word("field", path, own.title),
    hint: [say("hint", shown.hint ?? sentence(own.description)), number && t("form.range", { low: number.minimum, high: number.maximum })].filter(Boolean).join(" "),
    unset: say("unset", shown.unset ?? ""), absent: say("absent", shown.absent ?? ""),
    choices: new Map([...offered].map((value) => [value, { label: say(value, shown.choices?.[value] ?? value), means: say(`${value}.means`, shown.means?.[value] ?? "") }])),
    default: own.default ?? within ?? (own.anyOf?.some(isOf("null")) ? null : ""),
  };
}

/** What it is typed into. @param {any} shown @param {any[]} kinds @param {string[] | undefined} values @returns {string} */
function inputOf(shown, kinds, values) {
  const is = (/** @type {string[]} */ ...types) => types.some((type) => kinds.some(isOf(type)));
  if (shown.input) return shown.input;
  if (is("boolean")) return "check";
  if (is("integer", "number")) return "number";
  if (is("object")) return "pairs";
  if (is("array")) return "list";
  return values && values.length <= CHOICES ? "select" : "text";
}
