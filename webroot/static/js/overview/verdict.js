/** The verdict in one line. */
import { listed, t } from "../text.js";

/** @param {import("./page.js").Overview} seen @returns {{tone: "ok" | "warn" | "bad" | "idle", text: string}} */
export function verdictOf({ jobs, workers, fires, checks }) {
  const isHalted = checks.etcd !== "ok" || ["none", "drained", "refusing"].includes(fires.state);
  const bad = [
    isHalted && t("overview.halted"),
    jobs.failing > 0 && t("overview.failing", { n: jobs.total, failing: jobs.failing }),
  ].filter(Boolean);
  const warnings = [
    jobs.broken > 0 && t("overview.broken", { n: jobs.broken }),
    workers?.goneCount > 0 && t("overview.gone", { n: workers.goneCount }),
    !isHalted && workers?.refusingCount > 0 && t("overview.refusing", { n: workers.refusingCount }),
    jobs.late > 0 && t("overview.late", { n: jobs.late }),
    checks.logStore !== "ok" && t("overview.unknown"),
    ["degraded", "off"].includes(checks.clocks.state) && t("overview.clocks"),
  ].filter(Boolean);
  if (bad.length || warnings.length) return { tone: bad.length ? "bad" : "warn", text: listed(/** @type {string[]} */ ([...bad, ...warnings])) };
  if (jobs.total === 0) return { tone: "idle", text: t("jobs.none") };
  return { tone: "ok", text: t("overview.well", { n: jobs.total }) };
}
