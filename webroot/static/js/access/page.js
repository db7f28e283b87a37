/** Who may do what: users, service accounts and bindings, for administrators; and why somebody may do something. */
import { get, send } from "../api.js";
import { ask } from "../dialogs.js";
import { byId, delegate, h } from "../dom.js";
import { isForMe } from "../me.js";
import { note, toast } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { t } from "../text.js";
import { changeUser, newService, newServiceToken, newUser, servicesTable, usersTable } from "./accounts.js";
import { bindingsTable, newBinding } from "./bindings.js";
import { showCredentials } from "./credentials.js";
import { startExplain } from "./explain.js";

/** Of 500: more is nothing for a page. */
const MOST_PAGES = 10;

/** What the tables show. @type {{users: any[], services: any[], bindings: any[]}} */
const shown = { users: [], services: [], bindings: [] };

export function start() {
  if (!isForMe()) return Promise.resolve();
  const page = new Refresher((signal) => load(signal, () => page.later()));
  const again = (/** @type {boolean} */ done) => done && void page.now();
  byId("new-user").addEventListener("click", async () => again(await newUser()));
  byId("new-service").addEventListener("click", async () => again(await newService()));
  byId("new-binding").addEventListener("click", async () => again(await newBinding(subjects())));
  delegate(byId("users"), "click", "[data-user]", async ({ dataset: { user, change } }) => again(await changeUser(change, shown.users.find(({ name }) => name === user))));
  delegate(byId("services"), "click", "[data-token-of]", async ({ dataset: { tokenOf } }) => again(await newServiceToken(tokenOf)));
  delegate(byId("main"), "click", "[data-remove]", async ({ dataset: { remove: path, what } }) => again(await remove(path, what)));
  delegate(byId("main"), "click", "[data-credentials-of]", ({ dataset: { credentialsOf } }) => showCredentials(credentialsOf));
  startExplain();
  return page.now();
}

/** Whom a binding can be of: those that are known here. */
const subjects = () => [
  ...shown.users.map(({ name }) => `user:${name}`), ...shown.services.map(({ name }) => `service:${name}`),
  ...new Set(shown.users.flatMap(({ groups = [] }) => groups.map((/** @type {string} */ one) => `group:${one}`))),
];

/** @param {AbortSignal} signal @param {() => void} later */
async function load(signal, later) {
  try {
    const [users, services, bindings] = await Promise.all(["/users", "/services", "/bindings"].map((path) => all(path, signal)));
    Object.assign(shown, { users, services, bindings });
    redraw(byId("users"), usersTable(shown.users));
    redraw(byId("services"), servicesTable(shown.services));
    redraw(byId("bindings"), bindingsTable(shown.bindings));
    redraw(byId("subjects"), subjects().map((one) => h("option", { value: one })));
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
    if (error.mayPass) later();
  }
  byId("users").setAttribute("aria-busy", "false");
}

/** Every page of a list. @param {string} path @param {AbortSignal} signal */
async function all(path, signal) {
  const found = [];
  for (let page = 0, cursor = null; page < MOST_PAGES; page++) {
    const { items, nextCursor } = await get(path, { query: { cursor }, signal });
    found.push(...items);
    cursor = nextCursor;
    if (!cursor) break;
  }
  return found;
}

/** @param {string} path @param {string} what @returns {Promise<boolean>} whether it is gone */
async function remove(path, what) {
  const title = t("access.remove");
  if ((await ask({ title, body: [h("p", {}, t("access.remove.ask", { what }))], action: title, tone: "danger" })) === null) return false;
  try {
    await send("DELETE", path);
    toast(t("access.removed", { what }));
    return true;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
}
