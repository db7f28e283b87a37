/** The list of keys, and what the marks mean. */
import { tell } from "./dialogs.js";
import { h } from "./dom.js";
import { t } from "./text.js";
import { badge, VERDICTS } from "./verdicts.js";

const KEYS = { "Ctrl K": "palette", "/": "search", n: "new", j: "down", k: "up", Enter: "open", e: "edit", m: "menu", z: "undo", f: "follow", x: "error", "g o": "overview", "g j": "jobs", "g r": "runs", "g t": "timeline", "g w": "workers", "g a": "alerts", "g s": "system", "?": "help" };

export function showHelp() {
  const keys = Object.entries(KEYS).map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, t(`key.${what}`))]);
  const verdicts = VERDICTS.map((code) => [h("dt", {}, badge(code)), h("dd", {}, t(`verdict.${code}.means`))]);
  tell(t("help.title"), [
    h("h3", {}, t("help.keys")), h("dl", { class: "pairs" }, keys.flat()),
    h("h3", {}, t("help.verdicts")), h("dl", { class: "pairs" }, verdicts.flat()),
  ]);
}
