/** The switches in the bar: times, theme, language. Each choice is kept in this browser. */
import { byId, delegate } from "./dom.js";
import { showHelp } from "./help.js";
import { keep, kept } from "./kept.js";
import { openPalette } from "./keys.js";
import { choose, mode, onChange } from "./zones.js";

const THEME = "etcron.theme";
const YEAR_S = 365 * 24 * 3600;

export function startBar() {
  const buttons = document.querySelectorAll("#times button");
  const mark = () => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.times === mode())));
  delegate(byId("times"), "click", "button", ({ dataset }) => choose(dataset.times));
  onChange(mark);
  mark();

  document.querySelectorAll("input[name=theme]").forEach((input) => void (input.checked = input.value === (kept(THEME) ?? "auto")));
  delegate(document, "change", "input[name=theme]", ({ value }) => {
    keep(THEME, value);
    window.dispatchEvent(new CustomEvent("etcron:theme", { detail: value }));
  });

  delegate(document, "change", "input[name=language]", ({ value }) => {
    document.cookie = `etcron_language=${value}; path=/; max-age=${YEAR_S}; samesite=strict`;
    window.location.reload();
  });
  byId("open-palette").addEventListener("click", () => void openPalette());
  byId("show-help").addEventListener("click", showHelp);
}
