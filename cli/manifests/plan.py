"""What applying jobs would do, decided before anything is changed. Pure: functions of (wanted, what there is, now)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from cli.job_views import differences
from common.errors import EtcronError, InvalidInputError
from common.instants import from_ms
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job

OWNER_LABEL: Final = "etcron/owner"
_TRIGGERS: Final = ("cronExpr", "every", "offset", "after", "at")
_FIRES: Final = 3
_PRUNED_FREELY: Final = 5
_SHARE_PRUNED_FREELY: Final = 1 / 5
"""Of the owner's jobs: more is what a wrong path or an unmounted folder looks like."""

Row = Mapping[str, Any]
"""A job as the API shows it."""


class Action(StrEnum):
    """What has to be done with one job."""

    CREATE = "create"
    CHANGE = "change"
    KEEP = "keep"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A job as it is to be."""

    name: str
    document: dict[str, Any]
    place: str
    """Where it was read, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One job: what has to be done, and what that changes."""

    action: Action
    name: str
    place: str = ""
    document: dict[str, Any]
    """To be saved; of a prune what is deleted."""
    revision: int = 0
    """At which the job was looked at; 0: there was none."""
    changes: tuple[tuple[str, Any, Any], ...] = ()
    fires_before: tuple[str, ...] = ()
    fires_after: tuple[str, ...] = ()
    state_before: str = ""
    state_after: str = ""


def plan_one(wanted: Wanted, there: Row | None, *, now_ms: int) -> Step:
    """The step that makes the job what is wanted.

    Where a manifest has no ``enabled`` the job stays paused or enabled: a pause by hand outlasts an apply.
    """
    if there is None:
        spec = read_spec(wanted.document)
        return Step(
            action=Action.CREATE, name=wanted.name, place=wanted.place, document=wanted.document,
            changes=tuple((field, None, value) for field, value in wanted.document.items() if field != "name"),
            fires_after=next_fires(spec, now_ms=now_ms, n=_FIRES), state_after=_state(wanted.document),
        )  # fmt: skip
    before: Mapping[str, Any] = there.get("spec") or {}
    document = dict(wanted.document)
    if document.get("enabled") is None and before.get("enabled") is False:
        document["enabled"] = False
    old, new = read_spec(before), read_spec(document)
    changes = _changes(document, before, None if new is None else new.to_document())
    # What this command cannot read is left to the manager to compare.
    same = not changes and new is not None and bool(before)
    return Step(
        action=Action.KEEP if same else Action.CHANGE, name=wanted.name, place=wanted.place, document=document,
        revision=there["revision"], changes=changes,
        fires_before=next_fires(old, now_ms=now_ms, n=_FIRES), fires_after=next_fires(new, now_ms=now_ms, n=_FIRES),
        state_before=_state(before), state_after=_state(document),
    )  # fmt: skip


def plan_prune(rows: Iterable[Row], kept: Iterable[str], *, now_ms: int) -> list[Step]:
    """The steps that delete those of the owner's jobs that are not wanted any more."""
    names = set(kept)
    return [
        Step(
            action=Action.PRUNE, name=row["name"], document=dict(row.get("spec") or {}), revision=row["revision"],
            fires_before=next_fires(read_spec(row.get("spec") or {}), now_ms=now_ms, n=_FIRES),
            state_before=str(row.get("state")),
        )
        for row in rows
        if row["name"] not in names
    ]  # fmt: skip


def with_owner(document: Mapping[str, Any], owner: str | None) -> dict[str, Any]:
    """The document with the owner's label; ValueError where it names another one."""
    if owner is None:
        return dict(document)
    labels = document.get("labels")
    if labels is not None and not isinstance(labels, dict):
        return dict(document)  # the check says what is wrong with it
    of_labels = (labels or {}).get(OWNER_LABEL, owner)
    if of_labels != owner:
        raise ValueError(f"labels: has {OWNER_LABEL}={of_labels}, and --owner says {owner}; take one away")
    return {**document, "labels": {**(labels or {}), OWNER_LABEL: owner}}


def other_owner(there: Row | None, owner: str | None) -> str | None:
    """Who owns the job, where that is another owner."""
    if there is None or owner is None:
        return None
    now = ((there.get("spec") or {}).get("labels") or {}).get(OWNER_LABEL)
    return now if now not in (None, owner) else None


def adopted(steps: Iterable[Step]) -> list[str]:
    """The jobs that have no owner yet, and get one."""
    return [
        step.name
        for step in steps
        if step.revision
        and any(
            before is None
            and (field == f"labels.{OWNER_LABEL}" or (field == "labels" and OWNER_LABEL in (after or {})))
            for field, before, after in step.changes
        )
    ]


def pruned_with_care(steps: Iterable[Step]) -> list[str]:
    """The jobs to prune, where they are more than are pruned without a confirmation; else none.

    More than five of them, or more than a fifth of the jobs that there are.
    """
    there = [step for step in steps if step.revision]
    pruned = [step.name for step in there if step.action is Action.PRUNE]
    is_many = len(pruned) > _PRUNED_FREELY or len(pruned) > _SHARE_PRUNED_FREELY * len(there)
    return pruned if is_many else []


def _changes(
    document: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any] | None
) -> tuple[tuple[str, Any, Any], ...]:
    """Field by field. A field that only a newer or only an older side knows is no change, unless it is asked for."""
    asked = {*document, *_TRIGGERS}
    new = document if after is None else after
    fields = asked if after is None else asked | (set(after) & set(before))
    return tuple(
        differences(
            {field: before[field] for field in before if field in fields},
            {field: new[field] for field in new if field in fields},
        )
    )


def _state(document: Mapping[str, Any]) -> str:
    return "paused" if document.get("enabled") is False else "enabled"


# The next fires of a job that need not be saved, by the engine that every worker has


def read_spec(document: Mapping[str, Any]) -> JobSpec | None:
    """The job in the document; None where this command does not understand what a newer manager may."""
    try:
        return parse_job({field: value for field, value in document.items() if value is not None})
    except InvalidInputError:
        return None


def next_fires(spec: JobSpec | None, *, now_ms: int, n: int) -> tuple[str, ...]:
    """Local times with their offsets, and what a change of the clocks does to them; none while it is paused.

    Those that its calendar closes are left out: they do not run.
    """
    if spec is None or not spec.enabled:
        return ()
    try:
        fires = spec.schedule.open_fires.upcoming(from_ms(now_ms), n)
    except EtcronError:
        return ()
    return tuple(fire.local.isoformat(sep=" ") + (f" ({fire.note})" if fire.note else "") for fire in fires)
