"""Carrying a plan out: first everything is read and checked, then it is saved, and pruned last.

If we die in between, what has been saved is saved; applying again does the rest, for unchanged jobs are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cli.client import Client, Document, ProblemError, if_match, job_path
from cli.errors import CommandError, ExitStatus
from cli.job_views import is_by_the_clock
from cli.manifests.plan import OWNER_LABEL, Action, Step, Wanted, other_owner, plan_one, plan_prune
from cli.printing import say
from cli.progress import tracked
from common.clock import SystemClock
from common.jobs.reader import in_zone

_ALL_AT_ONCE: Final = 200
"""For more jobs than this, every job is listed instead of each looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A step that was refused."""

    step: Step
    error: CommandError


def _listed(client: Client, query: dict[str, str]) -> list[Document]:
    """The rows of the jobs that there are. CommandError: that is not certain."""
    warnings: list[str] = []
    rows = list(client.items("/api/v1/jobs", query, warnings=warnings))
    stale = [text for text in warnings if "etcd" in text]
    if stale:
        message = f"it is not certain which jobs there are: {stale[0]}; try again later"
        raise CommandError(message, ExitStatus.UNAVAILABLE)
    return rows


def check(client: Client, wanted: Wanted) -> tuple[list[Document], list[str]]:
    """(errors, warnings) that a save of this job would give; nothing is stored."""
    answer = client.post("/api/v1/jobs/check", wanted.document)
    return list(answer["errors"]), list(answer["warnings"])


def pruned_fires(client: Client, step: Step) -> list[str]:
    """The fires that pruning this job takes away: those that a pause would."""
    answer = client.post("/api/v1/jobs/check", {**step.document, "enabled": False})
    return list(answer.get("skips") or ())


def make_plan(
    client: Client,
    wanted: Sequence[Wanted],
    *,
    owner: str | None = None,
    prune: bool = False,
    over: Callable[[Document, Document], Document] = lambda document, _: document,
) -> list[Step]:
    """The steps in the order of the wanted jobs, then those that prune. CommandError: some are another owner's.

    ``over``: the document that a job which is there already is to be, of the wanted one and of its spec.
    """
    now_ms, names = SystemClock().wall_ms(), [one.name for one in wanted]
    if len(names) <= _ALL_AT_ONCE:
        found = (client.find(job_path(name)) for name in tracked(names, "looking up"))
        rows = {row["name"]: row for row in found if row is not None}
    else:
        asked = set(names)
        rows = {row["name"]: row for row in _listed(client, {}) if row["name"] in asked}
    foreign = [
        f"{one.place}: {one.name}: belongs to {other} ({OWNER_LABEL}); apply it with --owner {other}, or delete it"
        for one in wanted
        if (other := other_owner(rows.get(one.name), owner)) is not None
    ]
    if foreign:
        raise CommandError("\n".join(["nothing was changed:", *foreign]), ExitStatus.CONFLICT)
    laid = [
        one
        if (spec := (rows.get(one.name) or {}).get("spec")) is None
        else replace(one, document=over(one.document, spec))
        for one in wanted
    ]
    steps = [plan_one(one, rows.get(one.name), now_ms=now_ms) for one in _in_zone(client, laid)]
    if prune and owner is not None:
        # Every job that bears the owner's label, whatever the manager's filter lets through.
        labelled = _listed(client, {"label": f"{OWNER_LABEL}={owner}"})
        theirs = [one for one in labelled if ((one.get("spec") or {}).get("labels") or {}).get(OWNER_LABEL) == owner]
        steps += plan_prune(theirs, names, now_ms=now_ms)
    return steps


def _in_zone(client: Client, wanted: Sequence[Wanted]) -> list[Wanted]:
    """The same, each with the zone that a save would give it."""
    if all(one.document.get("timezone") is not None for one in wanted):
        return list(wanted)
    zone = str(client.post("/api/v1/schedule/preview", {"cronExpr": "@yearly", "n": 1})["timezone"])
    if any(one.document.get("timezone") is None and is_by_the_clock(one.document) for one in wanted):
        say(f"where no time zone is named, times are those of {zone} (defaultTimezone of the managers)")
    return [replace(one, document={**in_zone(one.document, zone)}) for one in wanted]


def carry_out(client: Client, steps: Iterable[Step], *, done: Callable[[Step, str], None]) -> list[Failed]:
    """Save, then prune; `done` hears of each with what became of it. A refused save stops the pruning, not the saves; a
    refused prune stops nothing.

    Every change is on the condition that the job still is what the plan was made for. CommandError: the manager is
    away; what was not done is done by applying again.
    """
    failed: list[Failed] = []
    for step in tracked(sorted(steps, key=lambda step: step.action is Action.PRUNE), "saving"):
        if step.action is Action.PRUNE and any(one.step.action is not Action.PRUNE for one in failed):
            continue
        try:
            done(step, _carried(client, step))
        except ProblemError as error:
            if error.status is ExitStatus.UNAVAILABLE:
                raise
            failed.append(Failed(step=step, error=error))
    return failed


def _carried(client: Client, step: Step) -> str:
    headers = if_match(step.revision)
    match step.action:
        case Action.KEEP:
            return "unchanged"
        case Action.PRUNE:
            client.call("DELETE", job_path(step.name), headers=headers)
            return "pruned"
        case Action.CREATE | Action.CHANGE:
            answer = client.call("PUT", job_path(step.name), step.document, headers=headers).document
            return "unchanged" if not answer["changed"] else "created" if step.revision == 0 else "changed"
