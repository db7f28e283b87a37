/** The login: name and password, the login provider, a link that is good once. Afterwards one is where one was. */
import { ApiError, get, send } from "../api.js";
import { byId, h, hold, icon, isHeld } from "../dom.js";
import { isOwnPath } from "../leaving.js";
import { announce, note } from "../notices.js";
import { heardSecret, keepInTab, keepSecret, keptInTab, secret } from "../secret.js";
import { t, word } from "../text.js";

const query = new URLSearchParams(window.location.search);
/** When the page last went back with another tab's session. */
const FOLLOWED = "etcron.followed";
const NOT_AGAIN_MS = 10_000;
/** The secret with which it has looked who it is. @type {string | null} */
let tried = null;

export async function start() {
  const given = new URLSearchParams(window.location.hash.slice(1));
  // Gone from the address bar and from the history before anything is done with it.
  if (given.size) window.history.replaceState(null, "", window.location.pathname + window.location.search);
  const problem = query.get("problem");
  if (query.has("over")) note(byId("login-note"), t("login.is.over"), "info");
  if (problem) say(word("loginProblem", problem, t("login.failed")));
  byId("login-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void byPassword();
  });
  const link = given.get("link");
  if (given.get("session")) return arrived(given.get("session") ?? "", given.get("back"));
  if (link) return byLink(link);
  if (query.has("back")) {
    heardSecret(() => void followOtherTab());
    void followOtherTab(); // a busy tab answers later than the page waited that led here
  }
  await showWays();
  // Not from who has begun to type: a password would go on in the field that shows it.
  if (!byId("login-form").contains(document.activeElement)) byId("login-name").focus();
}

async function showWays() {
  try {
    const { oidc, password, auth } = await get("/login");
    byId("login-form").hidden = !password;
    if (oidc) {
      const url = `${oidc.url}?${new URLSearchParams({ back: back() })}`;
      byId("login-other").append(h("a", { class: `btn ${password ? "btn-plain" : "btn-primary"}`, href: url, id: "login-oidc" }, icon("box-arrow-in-right"), " ", t("login.with", { name: oidc.name })));
    }
    if (!password && !oidc) {
      const me = await get("/whoami").catch(() => null);
      note(byId("login-note"), me ? t("login.already", { name: me.name }) : t("login.none"), "info");
    }
    if (auth === "off") note(byId("login-note"), t("login.not.needed"), "info");
  } catch (error) {
    say(error.message);
  }
}

async function byPassword() {
  const button = byId("login-submit");
  if (isHeld(button)) return;
  const [name, password] = ["login-name", "login-password"].map((id) => /** @type {HTMLInputElement} */ (byId(id)));
  if (!name.value.trim() || !password.value) {
    say(t("login.incomplete"));
    return (name.value.trim() ? password : name).focus();
  }
  hold(button, true);
  try {
    enter(await send("POST", "/login", { body: { name: name.value.trim(), password: password.value } }));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(error.status === 401 ? t("login.wrong") : error.message);
    password.value = "";
    password.focus();
  } finally {
    hold(button, false);
  }
}

/** @param {string} secret of a link that is good once */
async function byLink(secret) {
  byId("login-form").hidden = true;
  note(byId("login-note"), t("login.by.link"), "info");
  try {
    enter(await send("POST", "/login/link", { body: { secret } }));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    note(byId("login-note"), null);
    say(error.status === 401 ? t("login.link.used") : error.message);
    await showWays();
  }
}

/** Back from the login provider, with a session: a link that somebody made up leads to none. @param {string} secret @param {string | null} to */
async function arrived(secret, to) {
  try {
    const me = await get("/whoami", { headers: { "X-Etcron-Session": secret } });
    enter({ csrf: secret, caller: me }, to);
  } catch (error) {
    say(error.status === 401 ? t("login.failed") : error.message);
    await showWays();
  }
}

/** @param {{csrf: string, caller: import("../caller.js").Whoami}} session @param {string | null} [to] */
function enter({ csrf, caller }, to = back()) {
  keepSecret(csrf, caller.name);
  window.location.replace(isOwnPath(to) ? /** @type {string} */ (to) : "/");
}

/** Another tab has a session: this one goes back with it, unless something is typed here, or it has just come back from there. */
async function followOtherTab() {
  if (tried === secret() || Date.now() - Number(keptInTab(FOLLOWED)) < NOT_AGAIN_MS) return;
  tried = secret();
  const me = await get("/whoami").catch(() => null);
  if (me?.via !== "session" || isTyped()) return;
  keepInTab(FOLLOWED, String(Date.now()));
  window.location.replace(back());
}

/** By the user, not by the browser. */
function isTyped() {
  return ["login-name", "login-password"].some((id) => {
    const field = /** @type {HTMLInputElement} */ (byId(id));
    return field.value && !field.matches(":autofill");
  });
}

/** Where one was. */
function back() {
  const wanted = query.get("back");
  return isOwnPath(wanted) ? /** @type {string} */ (wanted) : "/";
}

/** @param {string} text */
function say(text) {
  note(byId("problem"), text);
  announce(text);
}
