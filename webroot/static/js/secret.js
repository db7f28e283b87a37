/**
 * The second secret of a session. Where a browser speaks to this machine without TLS, its cookies reach every port of it;
 * what is kept for a tab does not. It goes along with each call; a new tab asks the others for it.
 */

const KEY = "etcron.session";
/** Whose session it is. */
const OWNER = "etcron.owner";
const WAIT_MS = 300;
/** Only tabs of this very origin hear it, port included. */
const channel = "BroadcastChannel" in window ? new BroadcastChannel("etcron") : null;
let here = "";
/** Whom the page is of, who is in its bar; "": not known. */
let mine = "";
/** Who has logged in here since, in place of them; "": nobody. */
let other = "";

/** The secret; "" where there is none. */
export const secret = () => keptInTab(KEY) ?? here;

/** @param {string} text @param {string} owner "": not known */
function store(text, owner) {
  if (owner || text !== secret()) keepInTab(OWNER, text && owner);
  here = text;
  keepInTab(KEY, text);
  if (text && owner) other = mine && owner !== mine ? owner : ""; // whose it is may not be known: then nobody new has come
}

/** Whom the page is of from now on. @param {string} name */
export function showsCaller(name) {
  mine = name;
  if (secret()) keepInTab(OWNER, name);
}

/** Another user, with whose session a call would go out that somebody sees as their own; "": nobody. */
export const otherUser = () => other;

/** What this tab has kept, through all its pages; null: nothing, or the reader lets nothing be kept. @param {string} key */
export function keptInTab(key) {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} text "": nothing */
export function keepInTab(key, text) {
  try {
    if (text) sessionStorage.setItem(key, text);
    else sessionStorage.removeItem(key);
  } catch {
    // it holds for this page
  }
}

/** Somebody has logged in here, or out (""): the other tabs know it too. @param {string} text @param {string} [owner] */
export function keepSecret(text, owner = "") {
  store(text, owner);
  channel?.postMessage({ secret: text, owner });
}

/** Calls when another tab tells the secret of a session. @param {() => void} listener */
export function heardSecret(listener) {
  channel?.addEventListener("message", ({ data }) => data.secret && listener());
}

/** What another tab has, where it has another one. @returns {Promise<boolean>} whether there is a new one now */
export function askOtherTabs() {
  if (!channel) return Promise.resolve(false);
  const before = secret();
  return new Promise((resolve) => {
    const end = (/** @type {boolean} */ found) => {
      window.clearTimeout(timer);
      channel.removeEventListener("message", look);
      resolve(found);
    };
    const look = () => secret() !== before && end(true);
    const timer = window.setTimeout(() => end(false), WAIT_MS);
    channel.addEventListener("message", look);
    channel.postMessage({ wanted: true, not: before });
  });
}

channel?.addEventListener("message", ({ data }) => {
  if (data.wanted && secret() && secret() !== data.not) channel.postMessage({ secret: secret(), owner: keptInTab(OWNER) ?? "" });
  if (typeof data.secret === "string") store(data.secret, data.owner ?? "");
});
