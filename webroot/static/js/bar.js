/** The switches in the bar: times, theme, language. Each choice is kept in this browser. */
import { showHelp } from "./help.js";
import { keep, kept } from "./kept.js";
import { choose, mode, onChange } from "./zones.js";
import { $ } from "./vendor.js";

const THEME = "etcron.theme";
const YEAR_S = 365 * 24 * 3600;

export function startBar() {
  const buttons = $("#times button");
  const mark = () => buttons.each((_, button) => button.setAttribute("aria-pressed", String(button.dataset.times === mode())));
  buttons.on("click", (event) => choose(event.currentTarget.dataset.times));
  onChange(mark);
  mark();

  const themes = $("input[name=theme]");
  themes.each((_, input) => void (input.checked = input.value === (kept(THEME) ?? "auto")));
  themes.on("change", (event) => {
    keep(THEME, event.currentTarget.value);
    window.dispatchEvent(new CustomEvent("etcron:theme", { detail: event.currentTarget.value }));
  });

  $("input[name=language]").on("change", (event) => {
    document.cookie = `etcron_language=${event.currentTarget.value}; path=/; max-age=${YEAR_S}; samesite=strict`;
    window.location.reload();
  });
  $("#show-help").on("click", showHelp);
}
