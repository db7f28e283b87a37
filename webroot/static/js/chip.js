/** The chip in the bar: whether what is shown is true now; where not, since when, and what cannot be reached. */
import { fill, icon } from "./dom.js";
import { on, status } from "./live/live.js";
import { stamp } from "./stamp.js";
import { t } from "./text.js";

/** @param {HTMLElement} chip */
export function startChip(chip) {
  let shown = "";
  on(["status"], () => {
    const [look, key, symbol, sinceMs] = now();
    const next = `${look} ${key} ${sinceMs}`;
    if (next === shown) return;
    shown = next;
    chip.className = `live live-${look}`;
    chip.title = status.health?.problem ?? "";
    fill(chip, icon(symbol), " ", t(key), sinceMs ? [" ", stamp(sinceMs, { as: "clock" })] : null);
  });
}

/** @returns {[string, string, string, number | null]} look, text, icon, since when */
function now() {
  const { state, sinceMs, health } = status;
  if (state === "stale") return ["bad", "live.stale", "wifi-off", sinceMs];
  if (state === "connecting") return ["idle", "live.connecting", "circle", null];
  if (health?.etcd === "full") return ["bad", "live.full", "exclamation-triangle-fill", health.sinceMs];
  if (health?.etcd === "unready") return ["bad", "live.unready", "exclamation-triangle-fill", null];
  const away = [health?.etcd === "away" && "etcd", health?.logStore === "away" && "logStore"].filter(Boolean).join(".");
  if (away) return ["bad", `live.away.${away}`, "exclamation-triangle-fill", health.sinceMs];
  return state === "polling" ? ["warn", "live.polling", "arrow-repeat", null] : ["ok", "live.live", "circle-fill", null];
}
