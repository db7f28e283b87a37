/** Users and service accounts. */
import { ApiError, get, send } from "../api.js";
import { askFields, linesOf } from "../asking.js";
import { h } from "../dom.js";
import { encoded } from "../links.js";
import { toast } from "../notices.js";
import { stamp } from "../stamp.js";
import { t } from "../text.js";
import { shownOnce } from "../token.js";
import { removal, table } from "../tables.js";

const GROUPS = { name: "groups", label: t("column.groups"), hint: t("access.groups.hint"), type: "lines", attributes: { spellcheck: false } };

/** @param {any[]} users */
export function usersTable(users) {
  return table("access.users", [
    { key: "name", draw: (/** @type {any} */ one) => [h("strong", {}, one.name), one.disabled && h("div", { class: "sub tone-bad" }, t("access.disabled")), one.problem && h("div", { class: "sub tone-bad" }, one.problem)], className: "wraps" },
    { key: "groups", draw: (/** @type {any} */ one) => (one.groups ?? []).map((/** @type {string} */ name) => h("span", { class: "label" }, name)), className: "wraps" },
    { key: "way", draw: (/** @type {any} */ one) => t(one.hasPassword ? "access.by.password" : "access.by.provider") },
    { key: "created", draw: (/** @type {any} */ one) => stamp(one.createdMs) },
    { key: "actions", draw: (/** @type {any} */ one) => one.problem ? removal(`/users/${encoded(one.name)}`, one.name) : ["password", "groups", one.disabled ? "enable" : "disable"].map((what) => change(what, one)).concat(credentials(`user:${one.name}`), removal(`/users/${encoded(one.name)}`, one.name)) },
  ], users, ({ name }) => name);
}

/** @param {any[]} services */
export function servicesTable(services) {
  return table("access.services", [
    { key: "name", draw: (/** @type {any} */ one) => [h("strong", {}, one.name), one.disabled && h("div", { class: "sub tone-bad" }, t("access.disabled")), h("div", { class: "sub" }, one.description ?? one.problem)], className: "wraps" },
    { key: "created", draw: (/** @type {any} */ one) => stamp(one.createdMs) },
    { key: "actions", draw: (/** @type {any} */ one) => [
      h("button", { type: "button", class: "btn btn-plain", "data-key": "token", "data-token-of": one.name }, t("account.token.new")), credentials(`service:${one.name}`), removal(`/services/${encoded(one.name)}`, one.name)] },
  ], services, ({ name }) => name);
}

/** @param {string} owner */
function credentials(owner) {
  const label = t("access.credentials");
  return h("button", { type: "button", class: "btn btn-quiet", "data-key": "credentials", "data-credentials-of": owner, "aria-label": `${label}: ${owner.replace(/^\w+:/, "")}` }, label);
}

/** @param {string} what @param {any} user */
function change(what, user) {
  const label = t(`access.user.${what}`);
  return h("button", { type: "button", class: "btn btn-quiet", "data-key": what, "data-user": user.name, "data-change": what, "aria-label": `${label}: ${user.name}` }, label);
}

export function newUser() {
  return askFields({
    title: t("access.user.new"), action: t("access.make"),
    fields: [
      { name: "name", label: t("login.name"), attributes: { maxlength: 128, autocapitalize: "none", spellcheck: false } },
      { name: "password", label: t("login.password"), type: "password", hint: t("access.user.password.hint"), attributes: { autocomplete: "new-password", maxlength: 256 } },
      GROUPS,
    ],
    send: async ({ name, password, groups }) => {
      await send("POST", "/users", { body: { name: name.trim(), groups: linesOf(groups), ...(password ? { password } : {}) } });
      toast(t("access.made", { what: name.trim() }));
    },
  });
}

/** @param {string} what @param {any} user */
export async function changeUser(what, user) {
  const path = `/users/${encoded(user.name)}`;
  const changed = () => toast(t("access.changed", { what: user.name }));
  const patch = async (/** @type {object} */ body, /** @type {Record<string, string>} */ headers = {}) => {
    await send("PATCH", path, { body, headers });
    changed();
  };
  const title = `${t(`access.user.${what}`)}: ${user.name}`;
  const action = t("access.change");
  switch (what) {
    case "password":
      return askFields({ title, action, fields: [{ name: "password", label: t("account.password.new"), type: "password", hint: t("account.password.hint"), attributes: { autocomplete: "new-password", maxlength: 256 } }],
        send: ({ password }) => patch({ password }) });
    case "groups": {
      const newest = await read(path); // all groups are written: one that was taken away since would come back
      if (!newest) return false;
      const since = { "If-Match": `"${newest.revision}"` };
      return askFields({ title, action, fields: [{ ...GROUPS, value: (newest.groups ?? []).join("\n") }],
        send: ({ groups }) => patch({ groups: linesOf(groups) }, since).catch(async (error) => {
          if (error.status !== 412) throw error;
          if (!areSame((await get(path)).groups ?? [], linesOf(groups))) throw new ApiError(t("access.stale", { what: user.name }));
          changed(); // by a try before, whose answer was lost
        }) });
    }
    default:
      return askFields({ title, action: t(`access.user.${what}`), tone: what === "disable" ? "danger" : "primary", intro: [h("p", {}, t(what === "disable" ? "access.disable.ask" : "access.enable.ask"))], fields: [],
        send: () => patch({ disabled: what === "disable" }) });
  }
}

/** Whether they are the same groups, in whatever order. @param {string[]} some @param {string[]} others */
const areSame = (some, others) => String([...new Set(some)].sort()) === String([...new Set(others)].sort());

/** @param {string} path @returns {Promise<any>} null: it could not be read, and the page says why */
async function read(path) {
  try {
    return await get(path);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, "bad");
    return null;
  }
}

export function newService() {
  return askFields({
    title: t("access.service.new"), action: t("access.make"),
    fields: [
      { name: "name", label: t("column.name"), attributes: { maxlength: 128, autocapitalize: "none", spellcheck: false } },
      { name: "description", label: t("access.description"), attributes: { maxlength: 300 } },
    ],
    send: async ({ name, description }) => {
      await send("POST", "/services", { body: { name: name.trim(), description: description.trim() } });
      toast(t("access.made", { what: name.trim() }));
    },
  });
}

/** @param {string} name of the service account */
export function newServiceToken(name) {
  return askFields({
    title: `${t("account.token.new")}: ${name}`, action: t("account.token.make"),
    fields: [
      { name: "name", label: t("account.token.name"), attributes: { maxlength: 80 } },
      { name: "days", label: t("account.token.days"), type: "number", value: "90", attributes: { min: 1, max: 3650 } },
    ],
    send: async (values) => {
      const made = await send("POST", "/tokens", { body: { name: values.name.trim(), days: Number(values.days), owner: `service:${name}` } });
      return shownOnce(made.token);
    },
  });
}
