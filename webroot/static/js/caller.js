/** Who is logged in here, and what they may do: what they may not is not offered, or says why. The manager decides. */
import { get } from "./api.js";
import { secret, showsCaller } from "./secret.js";
import { t, word } from "./text.js";

/** @typedef {"viewer" | "operator" | "editor" | "admin"} Role */
/** @typedef {{role: Role, labels: "all" | Record<string, string[]>}} Binding */
/** @typedef {{name: string, via: string, auth: string, subjects: string[], roles: string[], bindings: Binding[], recovery: {who: string, untilMs: number} | null}} Whoami */

const RANKS = { viewer: 0, operator: 1, editor: 2, admin: 3 };
/** What each action needs. @type {Record<string, Role>} */
const NEEDS = { run: "operator", pause: "operator", resume: "operator", kill: "operator", label: "editor", "give-up": "operator", edit: "editor", delete: "editor", copy: "editor", restore: "editor", unblock: "admin" };
const PATIENCE_MS = 2000;

/** Who it is; null: not known (yet). @type {Whoami | null} */
let me = null;

export const caller = () => me;

/** Asks who it is. A manager that does not say it in time decides by itself what it takes. @returns {Promise<Whoami | null>} */
export async function findCaller() {
  const before = secret();
  me = await get("/whoami", { signal: AbortSignal.timeout(PATIENCE_MS) }).catch(() => null);
  if (secret() !== before) return findCaller(); // somebody has logged in here meanwhile
  if (me?.via === "session") showsCaller(me.name);
  return me;
}

/** Whether rights count at all. */
const isFree = () => me === null || me.auth !== "required" || me.roles.includes("owner");

/** Whether the caller has the role on something. @param {Role} role */
export const mayAnything = (role) => isFree() || (me?.bindings ?? []).some((one) => RANKS[one.role] >= RANKS[role]);

/** Whether the caller has the role on everything. @param {Role} role */
export const mayEverywhere = (role) => isFree() || hasEverywhere(role);

/** The same for what is guarded even where nobody has to log in: users, bindings, the audit. */
export const isAdmin = () => me !== null && me.via !== "nobody" && (hasEverywhere("admin") || (me.auth === "required" && me.roles.includes("owner")));

/** Whether the session is one for the first start or the last resort: it may everything, and no binding says so. */
export const isByLink = () => me !== null && me.auth === "required" && me.via === "session" && me.roles.includes("owner") && !hasEverywhere("admin");

/** @param {Role} role */
const hasEverywhere = (role) => (me?.bindings ?? []).some((one) => one.labels === "all" && RANKS[one.role] >= RANKS[role]);

/** The attributes of a button: where the caller may not use it, it is off, and says why. @param {string} action @param {Record<string, string> | null | undefined} labels of the job @param {{title?: string, disabled?: boolean}} [otherwise] */
export function offered(action, labels, { title, disabled = false } = {}) {
  const role = lacks(action, labels);
  return role ? { disabled: true, title: t("may.not", { role: word("role", role) }), "data-lacks": role } : { disabled, title };
}

/** The role that the caller lacks for this with a job of these labels; null: none. @param {string} action @param {Record<string, string> | null | undefined} labels nothing: not known @returns {Role | null} */
export function lacks(action, labels) {
  const role = NEEDS[action];
  if (!role || isFree() || (!labels && mayAnything(role))) return null;
  return (me?.bindings ?? []).some((one) => RANKS[one.role] >= RANKS[role] && matches(one.labels, labels ?? {})) ? null : role;
}

/** @param {"all" | Record<string, string[]>} wanted @param {Record<string, string>} labels */
const matches = (wanted, labels) => wanted === "all" || Object.entries(wanted).every(([name, values]) => values.includes(labels[name]));
