/** The keyboard: single keys outside of fields, `g` and a letter to go somewhere. */
import { showHelp } from "./help.js";
import { undoNewest } from "./notices.js";

const PLACES = { o: "/", j: "/jobs", r: "/runs", t: "/timeline", w: "/workers", a: "/alerts", s: "/system" };
const CHORD_MS = 1500;

/** @type {Record<string, () => void>} */
const own = {};
let goingUntil = 0;
/** What is typed while the palette is on its way; null: it is not. @type {string | null} */
let opening = null;

/** What a key does on this page. @param {string} key @param {() => void} action */
export const onKey = (key, action) => void (own[key] = action);

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.shiftKey && !event.altKey) {
      event.preventDefault(); // the browser's own search
      return void openPalette();
    }
    if (opening !== null && event.key.length === 1 && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      opening += event.key;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && isField(event.target)) return event.target.blur();
    if (isField(event.target) || document.querySelector(".modal.show, dialog[open]") || event.target.closest?.(".dropdown-menu")) return;
    const action = actionOf(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** @param {string} key @returns {(() => void) | undefined} */
function actionOf(key) {
  if (Date.now() < goingUntil) {
    goingUntil = 0;
    if (key in PLACES) return () => go(PLACES[key]);
  }
  if (key === "g") return () => void (goingUntil = Date.now() + CHORD_MS);
  if (key === "?") return showHelp;
  if (key === "/") return focusSearch;
  if (key === "n") return () => go("/new");
  if (key === "z") return undoNewest;
  if (key === "j" || key === "k") return () => step(key === "j" ? 1 : -1);
  return own[key];
}

/** It is loaded by who asks for it; what is typed meanwhile is not lost. */
export async function openPalette() {
  if (document.body.dataset.page === "login" || opening !== null || document.querySelector(".modal.show, dialog[open]")) return;
  opening = "";
  const { open } = await import("./palette/palette.js");
  open(opening);
  opening = null;
}

/** @param {string} path */
const go = (path) => window.location.assign(path);

function focusSearch() {
  const field = document.querySelector("input[type=search]");
  if (field) field.focus();
  else go("/jobs?search");
}

/** Moves the focus to the link of the next or previous row. @param {number} by */
function step(by) {
  const links = [...document.querySelectorAll("[data-row-link]")];
  const row = document.activeElement?.closest("[data-row]");
  const at = row ? links.indexOf(row.querySelector("[data-row-link]")) : -1;
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1);
  links[next]?.focus();
}

/** @param {any} target */
function isField(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    !["checkbox", "radio"].includes(target.type);
}
