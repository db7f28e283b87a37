/** Taking a worker out of service without ending what runs there, and taking it back. */
import { ApiError, get, send } from "../api.js";
import { ask } from "../dialogs.js";
import { h } from "../dom.js";
import { encoded } from "../links.js";
import { announce, said, toast } from "../notices.js";
import { t } from "../text.js";

/** @param {string} name @returns {Promise<boolean>} whether it was done */
export async function drain(name) {
  const title = t("workers.drain");
  const body = [h("p", {}, t("ask.drain", { name })), ...(await warningsOf(name)).map((text) => said(text, "warn"))];
  const reason = await ask({ title: `${title}: ${name}`, body, action: title, reason: t("reason") });
  return reason !== null && call(name, "drain", reason ? { reason } : {});
}

/** What no other worker would do meanwhile; nothing where that is not known. @param {string} name */
async function warningsOf(name) {
  try {
    const [{ items }, { onlyThere }] = await Promise.all([get("/workers"), get(`/workers/${encoded(name)}`)]);
    const isTaking = (/** @type {any} */ one) => one.state === "accepting";
    const isLast = items.some((/** @type {any} */ one) => isTaking(one) && one.name === name) && !items.some((/** @type {any} */ one) => isTaking(one) && one.name !== name);
    return [isLast && t("ask.drain.last"), onlyThere?.count > 0 && t("ask.drain.only", { n: onlyThere.count })].filter(Boolean);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return [];
  }
}

/** @param {string} name @returns {Promise<boolean>} */
export async function undrain(name) {
  return call(name, "undrain", {});
}

/** Nothing is said of it any more. @param {string} name @returns {Promise<boolean>} */
export async function forget(name) {
  const title = t("workers.forget");
  const sure = await ask({ title: `${title}: ${name}`, body: [h("p", {}, t("ask.forget", { name }))], action: title, tone: "danger" });
  return sure !== null && call(name, "forget");
}

/** What is under way: a double click is one. @type {Set<string>} */
const going = new Set();

/** @param {string} name @param {"drain" | "undrain" | "forget"} what @param {object} [body] */
async function call(name, what, body) {
  if (going.has(name)) return false;
  going.add(name);
  try {
    const path = `/workers/${encoded(name)}`;
    await (what === "forget" ? send("DELETE", path) : send("POST", `${path}/${what}`, { body }));
    toast(t(`done.${what}`, { name }));
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const text = `${t(`workers.${what}`)}: ${error.message}`;
    toast(text, "bad");
    announce(text);
    return false;
  } finally {
    going.delete(name);
  }
}
