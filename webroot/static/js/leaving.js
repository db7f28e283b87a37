/** To the login page and back to where one was; nothing that was typed is lost by it. */
import { byId, fill, h, icon } from "./dom.js";
import { t } from "./text.js";

const FIELDS = "#job-form, .modal form";
/** Whether something was typed that would be lost. */
let isTyped = false;
document.addEventListener("input", ({ target }) => void (isTyped ||= /** @type {Element} */ (target).closest(FIELDS) !== null));

/** Whether a text is a path of this console; a foreign page is none. @param {string | null} text */
export function isOwnPath(text) {
  return text !== null && /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(text) && !/^\/(api\/|login)/.test(text);
}

/** Where the login leads to afterwards; who was known here a moment ago is told that this is over. */
function loginUrl() {
  const { pathname, search, hash } = window.location;
  return `/login?back=${encodeURIComponent(pathname + search + hash)}${byId("me").hidden ? "" : "&over=1"}`;
}

/** Nobody is logged in here any more. */
export function loginNeeded() {
  if (document.body.dataset.page === "login") return;
  if (!isTyped || !document.querySelector(FIELDS)) return window.location.assign(loginUrl());
  if (byId("login-needed").childElementCount) return;
  fill(byId("login-needed"), h("p", { class: "note note-bad" }, icon("exclamation-triangle-fill"), h("span", {}, t("login.over"), " ",
    h("a", { href: loginUrl(), target: "_blank", rel: "opener" }, t("login.again")))));
  byId("login-needed").scrollIntoView({ block: "nearest" });
}

/** Calls are answered again. */
export function loggedIn() {
  const note = document.getElementById("login-needed");
  if (note?.childElementCount) fill(note);
}
