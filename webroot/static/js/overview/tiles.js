/** Counts that lead to what they count; and the servers in a line. */
import { h, icon } from "../dom.js";
import { number, t, word } from "../text.js";

/** @param {import("./page.js").Overview} seen */
export function tilesOf({ jobs, running, workers }) {
  return [
    tile("failing", "/jobs?state=failing", jobs.failing, jobs.failing > 0 ? "bad" : ""),
    tile("running", "/runs?status=running", running),
    jobs.late !== null && tile("late", "/workers", jobs.late, jobs.late > 0 ? "warn" : ""),
    tile("paused", "/jobs?state=paused", jobs.paused),
    jobs.broken > 0 && tile("broken", "/jobs?state=broken", jobs.broken, "bad"),
    tile("workers", "/workers", workers && t("overview.of", { some: workers.taking, all: workers.total }), workers && workers.taking === 0 ? "bad" : workers?.goneCount || workers?.refusingCount ? "warn" : ""),
    tile("jobs", "/jobs", jobs.total),
  ];
}

/** @param {string} name @param {string} href @param {number | string | null} count null: not known @param {string} [tone] */
function tile(name, href, count, tone = "") {
  const shown = count === null || count === undefined ? "?" : typeof count === "number" ? number(count) : count;
  return h("a", { class: `tile${tone && ` tone-${tone}`}`, href, "data-key": name, title: t(`overview.tile.${name}.title`) },
    h("strong", {}, shown), " ", h("span", {}, tone && [icon("exclamation-triangle-fill"), " "], t(`overview.tile.${name}`)));
}

/** @param {import("./page.js").Overview} seen */
export function serversIn({ checks, workers }) {
  const at = (/** @type {string} */ name, /** @type {string} */ state, /** @type {string | null} */ problem) => {
    const tone = state === "ok" ? "ok" : ["away", "full", "off"].includes(state) ? "bad" : state === "unknown" ? "idle" : "warn";
    return h("span", { class: "server-of", "data-key": name, title: problem }, h("span", { class: `tone-${tone}` }, icon(tone === "ok" ? "check-circle-fill" : tone === "idle" ? "question-diamond-fill" : "exclamation-triangle-fill")), " ",
      word("check", name), tone !== "ok" && [": ", h("span", { class: `tone-${tone}` }, t(`overview.server.${state}`))]);
  };
  const some = workers === null ? "unknown" : workers.taking === 0 ? "off" : workers.goneCount || workers.refusingCount ? "degraded" : "ok";
  return [at("etcd", checks.etcd, checks.problem), at("logStore", checks.logStore, checks.problem), at("workers", some, null), at("clocks", checks.clocks.state, checks.clocks.problem)];
}
