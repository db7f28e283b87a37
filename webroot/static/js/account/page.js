/** One's own account: who one is here, what one may do, the sessions and tokens by which one is known; the password. */
import { get, send } from "../api.js";
import { askFields } from "../asking.js";
import { caller } from "../caller.js";
import { ask } from "../dialogs.js";
import { byId, delegate, h, icon } from "../dom.js";
import { facts, grid } from "../grid.js";
import { spelled } from "../labels.js";
import { note, toast } from "../notices.js";
import { redraw } from "../redraw.js";
import { Refresher } from "../refresher.js";
import { keepSecret } from "../secret.js";
import { stamp } from "../stamp.js";
import { t, word } from "../text.js";
import { shownOnce } from "../token.js";

const DAYS = "90";

export function start() {
  const page = new Refresher((signal) => load(signal, () => page.later()));
  showWho();
  byId("new-token").addEventListener("click", async () => (await newToken()) && page.now());
  byId("change-password").addEventListener("click", () => void changePassword());
  delegate(byId("main"), "click", "[data-revoke]", async ({ dataset: { revoke: path, what } }) => {
    const title = t("account.revoke");
    if ((await ask({ title, body: [h("p", {}, t("account.revoke.ask", { what }))], action: title, tone: "danger" })) === null) return;
    await send("DELETE", path).then(() => toast(t("account.revoked", { what })), (error) => toast(error.message, "bad"));
    void page.now();
  });
  return page.now();
}

function showWho() {
  const me = caller();
  if (!me) return;
  const bindings = [...new Set(me.bindings.map((one) => `${word("role", one.role)}: ${spelled(one.labels)}`))].map((one) => h("div", {}, one));
  byId("new-token").hidden = !isUser();
  redraw(byId("who"), facts([
    ["login.name", me.name],
    ["account.via", word("via", me.via)],
    ["account.subjects", me.subjects.map((one) => h("span", { class: "label" }, one))],
    ["account.rights", me.roles.includes("owner") ? word("role", "owner") : bindings.length ? bindings : t("account.nothing")],
  ]));
  byId("who").setAttribute("aria-busy", "false");
}

/** Whether tokens can be the caller's: they belong to users and service accounts. */
const isUser = () => (caller()?.subjects ?? []).some((one) => one.startsWith("user:"));

/** @param {AbortSignal} signal @param {() => void} later */
async function load(signal, later) {
  try {
    const [sessions, tokens] = await Promise.all([get("/sessions", { signal }), get("/tokens", { signal })]);
    byId("change-password").hidden = sessions.items.find((/** @type {any} */ one) => one.current)?.way !== "password"; // others have none here
    redraw(byId("sessions"), tableOf("account.sessions", [
      { key: "way", draw: (/** @type {any} */ one) => [word("via", one.way), " ", one.current && h("span", { class: "label" }, t("account.this"))] },
      { key: "address", draw: (/** @type {any} */ one) => [one.address, h("div", { class: "sub clip why", title: one.agent }, one.agent)], className: "wraps" },
      { key: "created", draw: (/** @type {any} */ one) => stamp(one.createdMs) },
      { key: "expires", draw: (/** @type {any} */ one) => stamp(one.expiresMs) },
      { key: "actions", draw: (/** @type {any} */ one) => revoke(`/sessions/${one.id}`, t("account.session.of", { address: one.address })) },
    ], sessions.items));
    redraw(byId("tokens"), !isUser() && !tokens.items.length ? h("p", { class: "muted" }, t("account.token.whose")) : tableOf("account.tokens", [
      { key: "name", draw: (/** @type {any} */ one) => [h("strong", {}, one.name), h("div", { class: "sub" }, one.id)], className: "wraps" },
      { key: "role", draw: (/** @type {any} */ one) => (one.role ? t("account.token.role", { role: word("role", one.role) }) : t("account.token.all")) },
      { key: "created", draw: (/** @type {any} */ one) => stamp(one.createdMs) },
      { key: "expires", draw: (/** @type {any} */ one) => stamp(one.expiresMs) },
      { key: "actions", draw: (/** @type {any} */ one) => revoke(`/tokens/${one.id}`, t("account.token.of", { name: one.name })) },
    ], tokens.items));
    note(byId("problem"), null);
  } catch (error) {
    if (signal.aborted) throw error;
    note(byId("problem"), error.message);
    if (error.mayPass) later();
  }
}

/** @param {string} caption @param {any[]} columns @param {any[]} items */
function tableOf(caption, columns, items) {
  if (!items.length) return h("p", { class: "muted" }, t("account.none"));
  return h("div", { class: "scroll-x", role: "group", tabindex: 0, "aria-label": t(caption) }, grid(t(caption), columns, items, "auto stack", ({ id }) => id));
}

/** @param {string} path @param {string} what */
function revoke(path, what) {
  return h("button", { type: "button", class: "btn btn-plain", "data-revoke": path, "data-what": what, "aria-label": `${t("account.revoke")}: ${what}` }, icon("x-lg"), " ", t("account.revoke"));
}

function newToken() {
  const roles = ["viewer", "operator", "editor", "admin"].map((role) => /** @type {[string, string]} */ ([role, t("account.token.role", { role: word("role", role) })]));
  return askFields({
    title: t("account.token.new"), action: t("account.token.make"), intro: [h("p", { class: "muted" }, t("account.token.why"))],
    fields: [
      { name: "name", label: t("account.token.name"), attributes: { maxlength: 80 } },
      { name: "days", label: t("account.token.days"), type: "number", value: DAYS, attributes: { min: 1, max: 3650 } },
      { name: "role", label: t("account.token.rights"), options: [["", t("account.token.all")], ...roles] },
    ],
    send: async ({ name, days, role }) => {
      const made = await send("POST", "/tokens", { body: { name: name.trim(), days: Number(days), ...(role ? { role } : {}) } });
      return shownOnce(made.token);
    },
  });
}

function changePassword() {
  return askFields({
    title: t("account.password"), action: t("account.password.change"),
    fields: [
      { name: "old", label: t("account.password.old"), type: "password", attributes: { autocomplete: "current-password", maxlength: 256 } },
      { name: "new", label: t("account.password.new"), type: "password", hint: t("account.password.hint"), attributes: { autocomplete: "new-password", maxlength: 256 } },
    ],
    send: async (values) => {
      const { csrf } = await send("POST", "/password", { body: { old: values.old, new: values.new } });
      keepSecret(csrf, caller()?.name);
      toast(t("account.password.done"));
    },
  });
}
