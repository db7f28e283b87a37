/** The command: a line for the shell, or a program with its arguments, one a line. */
import { byId } from "../dom.js";
import { fromLines, toLines } from "./lists.js";

const PLAIN = /^[\w@%+=:,./-]+$/;

/** What the other way of giving it held, so that going there and back changes nothing. */
let left = { text: "", becoming: "" };

/** @param {HTMLElement} box @param {string | string[]} value */
export function fillCommand(box, value) {
  const how = Array.isArray(value) ? "list" : "line";
  box.querySelector(`[name=given][value=${how}]`).checked = true;
  area().value = Array.isArray(value) ? toLines(value) : value;
  left = { text: "", becoming: "" };
  showHow(box);
}

/** @param {HTMLElement} box @returns {string | string[]} */
export const readCommand = (box) => (howOf(box) === "list" ? fromLines(area().value) : area().value);

/** The other way was chosen: the same command in it, as far as it can be said. @param {HTMLElement} box */
export function turnCommand(box) {
  const text = area().value;
  area().value = text === left.becoming ? left.text : howOf(box) === "list" ? split(text) : joined(fromLines(text));
  left = { text, becoming: area().value };
  showHow(box);
}

/** @param {HTMLElement} box */
function showHow(box) {
  box.querySelectorAll("[data-given]").forEach((one) => void (one.hidden = one.dataset.given !== howOf(box)));
}

/** @param {HTMLElement} box */
const howOf = (box) => box.querySelector("[name=given]:checked").value;

/** @returns {any} */
const area = () => byId("f-command");

/** Words, where no shell is needed to tell them; else nobody can say. @param {string} line */
function split(line) {
  const words = line.trim().split(/\s+/);
  return words.every((word) => PLAIN.test(word)) ? words.join("\n") : line;
}

/** Quoted for a shell. @param {string[]} words */
function joined(words) {
  return words.map((word) => (PLAIN.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(" ");
}
