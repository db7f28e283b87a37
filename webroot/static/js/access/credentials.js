/** What lets a user or a service account in: their sessions and tokens, each to be revoked. */
import { get, send } from "../api.js";
import { tell } from "../dialogs.js";
import { fill, h } from "../dom.js";
import { note, toast } from "../notices.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { table } from "../tables.js";

/** @param {string} owner `user:alice` or `service:ci` */
export function showCredentials(owner) {
  const problem = h("div", { role: "alert" });
  const box = h("div", { "aria-busy": "true" });
  tell(`${t("access.credentials")}: ${owner.replace(/^\w+:/, "")}`, [problem, box]);
  void draw(owner, box, problem);
}

/** What each box shows soon: an answer to what was asked before is not drawn, however late it comes. */
const newest = new WeakMap();

/** @param {string} owner @param {HTMLElement} box @param {HTMLElement} problem */
async function draw(owner, box, problem) {
  const mine = {};
  newest.set(box, mine);
  const again = () => draw(owner, box, problem);
  try {
    const tokens = await get("/tokens", { query: { owner } });
    const sessions = owner.startsWith("user:") ? await get("/sessions", { query: { user: owner.slice("user:".length) } }) : null;
    if (newest.get(box) !== mine) return;
    fill(box, h("h3", {}, t("account.tokens")), table("account.tokens", [
      { key: "name", draw: (/** @type {any} */ one) => one.name, className: "wraps" },
      { key: "expires", draw: (/** @type {any} */ one) => stamp(one.expiresMs) },
      { key: "actions", draw: (/** @type {any} */ one) => revoke(`/tokens/${one.id}`, t("account.token.of", { name: one.name }), problem, again) },
    ], tokens.items, ({ id }) => id),
    sessions && [h("h3", {}, t("account.sessions")), table("account.sessions", [
      { key: "way", draw: (/** @type {any} */ one) => word("via", one.way) },
      { key: "address", draw: (/** @type {any} */ one) => one.address, className: "wraps" },
      { key: "created", draw: (/** @type {any} */ one) => stamp(one.createdMs) },
      { key: "actions", draw: (/** @type {any} */ one) => revoke(`/sessions/${one.id}`, t("account.session.of", { address: one.address }), problem, again) },
    ], sessions.items, ({ id }) => id)]);
  } catch (error) {
    if (newest.get(box) !== mine) return;
    note(problem, error.message);
  }
  box.setAttribute("aria-busy", "false");
}

/** @param {string} path @param {string} what @param {HTMLElement} problem @param {() => Promise<void>} again */
function revoke(path, what, problem, again) {
  const act = async () => {
    try {
      await send("DELETE", path);
      toast(t("account.revoked", { what }));
      await again();
    } catch (error) {
      note(problem, error.message);
    }
  };
  return h("button", { type: "button", class: "btn btn-plain", "aria-label": `${t("account.revoke")}: ${what}`, onclick: act }, t("account.revoke"));
}
