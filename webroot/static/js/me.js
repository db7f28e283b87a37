/** The caller in the bar: their name, the way to their account, the way out; places for those who may go there. */
import { ApiError, get, send } from "./api.js";
import { now } from "./clock.js";
import { caller, findCaller, isAdmin, isByLink, mayAnything } from "./caller.js";
import { byId, fill, h, icon } from "./dom.js";
import { on, status } from "./live/live.js";
import { said, toast } from "./notices.js";
import { redraw } from "./redraw.js";
import { Refresher } from "./refresher.js";
import { keepSecret } from "./secret.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";

const ASK_AGAIN_MS = 5_000;

/** @param {import("./caller.js").Whoami | null} me null: the manager has not said it in time, and is asked again */
export function showCaller(me) {
  document.querySelectorAll("[data-for=admin]").forEach((one) => void (/** @type {HTMLElement} */ (one).hidden = !isAdmin()));
  document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" }); // on a narrow page it may be further right
  document.querySelectorAll("[data-for=editor]").forEach((one) => void (/** @type {HTMLElement} */ (one).hidden = !mayAnything("editor")));
  if (!me) {
    setTimeout(async () => showCaller(await findCaller()), ASK_AGAIN_MS);
    return;
  }
  let { recovery } = me;
  const warn = () => redraw(byId("auth-note"), notesOf(me, recovery));
  on(["status"], warn);
  // What the manager's health does not tell everybody.
  const asking = new Refresher(async (signal) => {
    recovery = await get("/whoami", { signal }).then((newest) => newest.recovery, () => recovery);
    warn();
  }, ASK_AGAIN_MS);
  on(["poll"], () => asking.soon());
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
  fill(main, h("div", { class: "page-head" }, main.querySelector("h1")), said(t("may.not.admin"), "info"));
  return false;
}

/** @param {import("./caller.js").Whoami} me @param {import("./caller.js").Whoami["recovery"]} asked where no event tells it */
function notesOf(me, asked) {
  const recovery = status.health?.recovery === undefined ? asked : status.health.recovery;
  return [
    recovery && recovery.untilMs > now() && said([t("auth.recovery", { who: recovery.who }), " ", stamp(recovery.untilMs, { as: "until" })], "bad"),
    isByLink() && said(t("auth.link"), "bad"),
    me.auth === "required" && status.health?.etcd === "away" && said(t("auth.away"), "bad"),
    me.via !== "nobody" && !mayAnything("viewer") && said(t("account.nothing"), "warn"),
    me.auth === "off" && said(t("auth.off"), "warn"),
    me.auth === "warn" && said(t("auth.warn"), "warn"),
  ];
}

async function logOut() {
  try {
    await send("POST", "/logout");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 401) return toast(`${t("me.out")}: ${error.message}`, "bad"); // a session that is over is what is wanted
  }
  keepSecret("");
  window.location.assign("/login");
}
