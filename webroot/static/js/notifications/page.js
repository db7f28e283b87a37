/** Where messages go (channels), which ones (rules), and what became of each (notices). */
import { ApiError, get, send } from "../api.js";
import { mayEverywhere } from "../caller.js";
import { ask } from "../dialogs.js";
import { byId, delegate, fill, h, icon } from "../dom.js";
import { encoded } from "../links.js";
import { on } from "../live/live.js";
import { note, toast } from "../notices.js";
import { Pager } from "../pager.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { inWords } from "../said.js";
import { t } from "../text.js";
import { channelsTable, newChannel } from "./channels.js";
import { noticesTable } from "./sent.js";
import { newRule, rulesTable } from "./rules.js";

const EVERY_MS = 5000;
const A_PAGE = 50;
/** So many channels can be chosen from; who has more types their names. */
const CHOICES = 500;

/** Of all channels, for the dialog of a rule. @type {string[]} */
let names = [];

export function start() {
  if (!mayEverywhere("viewer")) {
    fill(byId("main"), h("div", { class: "page-head" }, h("h1", {}, t("title.notifications"))), h("p", { class: "note note-info" }, icon("info-circle"), h("span", {}, t("may.not.viewer"))));
    return Promise.resolve();
  }
  const pagers = Object.fromEntries(["channels", "rules", "notices"].map((part) => [part, new Pager(t("pager.label"), () => void page.now())]));
  const page = new Refresher((signal) => load(pagers, signal), EVERY_MS);
  const again = (/** @type {boolean} */ done) => done && void page.now();
  on(["again", "ping"], () => page.soon());
  byId("new-channel").hidden = !mayEverywhere("admin");
  byId("new-rule").hidden = !mayEverywhere("editor");
  byId("new-channel").addEventListener("click", async () => again(await newChannel()));
  byId("new-rule").addEventListener("click", async () => again(await newRule(names)));
  byId("notice-state").addEventListener("change", () => {
    pagers.notices.reset();
    void page.now();
  });
  delegate(byId("main"), "click", "[data-test]", async ({ dataset: { test: name } }) => again(await done(send("POST", `/channels/${encoded(name)}/test`, { body: {} }), t("channel.tested", { name }))));
  delegate(byId("main"), "click", "[data-resend]", async ({ dataset: { resend: id } }) => again(await done(send("POST", `/notices/${encoded(id)}/resend`, { body: {} }), t("notice.resent"))));
  delegate(byId("main"), "click", "[data-remove]", async ({ dataset: { remove: path, what } }) => again(await remove(path, what)));
  return page.now();
}

/** @param {Record<string, Pager>} pagers @param {AbortSignal} signal */
async function load(pagers, signal) {
  try {
    const asked = (/** @type {string} */ part, query = {}) => get(`/${part}`, { query: { ...query, cursor: pagers[part].cursor, limit: A_PAGE }, signal });
    const state = /** @type {HTMLSelectElement} */ (byId("notice-state")).value;
    const [channels, rules, notices, all] = await Promise.all([
      asked("channels"), asked("rules"), asked("notices", { state }), get("/channels", { query: { limit: CHOICES }, signal })]);
    names = all.items.map((/** @type {any} */ one) => one.name);
    redraw(byId("channels"), channelsTable(channels.items), pagers.channels.buttons(channels.nextCursor));
    redraw(byId("rules"), rulesTable(rules.items), pagers.rules.buttons(rules.nextCursor));
    redraw(byId("notices"), noticesTable(await inWords(notices.items.map((/** @type {any} */ one) => ({ ...one, err: one.error })))), pagers.notices.buttons(notices.nextCursor));
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
  }
  byId("channels").setAttribute("aria-busy", "false");
}

/** @param {Promise<unknown>} call @param {string} text said once it is done @returns {Promise<boolean>} whether it was done */
async function done(call, text) {
  try {
    await call;
    toast(text);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, "bad");
    return false;
  }
}

/** @param {string} path @param {string} what */
async function remove(path, what) {
  const title = t("access.remove");
  if ((await ask({ title, body: [h("p", {}, t("notifications.remove.ask", { what }))], action: title, tone: "danger" })) === null) return false;
  return done(send("DELETE", path), t("access.removed", { what }));
}
