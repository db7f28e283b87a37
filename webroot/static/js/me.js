/** The caller in the bar: their name, the way to their account, the way out; places for those who may go there. */
import { send } from "./api.js";
import { caller, isAdmin, isByLink, mayAnything } from "./caller.js";
import { byId, fill, h, icon } from "./dom.js";
import { on, status } from "./live/live.js";
import { note } from "./notices.js";
import { keepSecret } from "./secret.js";
import { t } from "./text.js";

/** @param {import("./caller.js").Whoami | null} me */
export function showCaller(me) {
  document.querySelectorAll("[data-for=admin]").forEach((one) => void (/** @type {HTMLElement} */ (one).hidden = !isAdmin()));
  document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" }); // on a narrow page it may be further right
  const newJob = document.getElementById("new-job");
  if (newJob) newJob.hidden = !mayAnything("editor");
  if (!me) return;
  const warn = () => note(byId("auth-note"), ...noteOf(me));
  on(["status"], warn);
  warn();
  const menu = byId("me");
  menu.hidden = false;
  if (me.via === "nobody") {
    fill(menu, h("a", { class: "btn btn-quiet", href: "/login" }, icon("person"), " ", t("login.action")));
    return;
  }
  byId("me-name").textContent = me.name;
  byId("me-toggle").title = t("me.known", { name: me.name, via: me.via });
  const out = byId("me-out");
  out.hidden = me.via !== "session";
  out.addEventListener("click", () => void logOut());
}

/** On pages that administrators alone may see: to others it says so, and nothing else is shown. @returns {boolean} whether the caller may */
export function isForMe() {
  if (caller() === null || isAdmin()) return true;
  const main = byId("main");
  fill(main, h("div", { class: "page-head" }, main.querySelector("h1")), h("p", { class: "note note-info" }, icon("info-circle"), h("span", {}, t("may.not.admin"))));
  return false;
}

/** @param {import("./caller.js").Whoami} me @returns {[string | null, "bad" | "warn"]} */
function noteOf(me) {
  if (me.auth === "required" && status.health?.etcd === "away") return [t("auth.away"), "bad"];
  if (me.via !== "nobody" && !mayAnything("viewer")) return [t("account.nothing"), "warn"];
  if (isByLink()) return [t("auth.link"), "bad"];
  return [me.auth === "warn" ? t("auth.warn") : null, "warn"];
}

async function logOut() {
  await send("POST", "/logout").catch(() => null); // a session that is over is what is wanted
  keepSecret("");
  window.location.assign("/login");
}
