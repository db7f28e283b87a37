/** To the login page and back to where one was; nothing that was typed is lost by it. */
import { byId, fill, h, icon } from "./dom.js";
import { heardSecret, otherUser } from "./secret.js";
import { t } from "./text.js";

const FIELDS = ".job-form, .modal form, .modal input";
/** Whether something was typed that would be lost, or led to what is shown once. */
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
  if (!staysWith(() => [t("login.over"), " ", h("a", { href: loginUrl(), target: "_blank", rel: "opener" }, t("login.again"))])) window.location.assign(loginUrl());
}

/** Another user has logged in here: the page becomes theirs. */
export function anotherCame() {
  if (!staysWith(() => [t("login.another", { name: otherUser() })])) window.location.reload();
}
heardSecret(() => otherUser() && anotherCame());

/** Says it on the page where something typed would be lost by leaving it. @param {() => import("./dom.js").Child[]} said @returns {boolean} whether it would */
function staysWith(said) {
  if (!isTyped || !document.querySelector(FIELDS)) return false;
  if (byId("login-needed").childElementCount) return true;
  fill(byId("login-needed"), h("p", { class: "note note-bad" }, icon("exclamation-triangle-fill"), h("span", {}, said())));
  byId("login-needed").scrollIntoView({ block: "nearest" });
  return true;
}

/** Calls are answered again. */
export function loggedIn() {
  const note = document.getElementById("login-needed");
  if (note?.childElementCount) fill(note);
}
