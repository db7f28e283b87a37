"""Jobs, their fires and their versions, as tables and in words. Reads the API's documents, and leans on few fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cli.client import Document
from cli.following import why
from cli.printing import print_pairs, print_table, quoted, tell, value_text
from cli.times import local, took


def _took(row: Document) -> str:
    run = row.get("lastRun") or {}
    return took(run.get("startTime"), run.get("endTime"))


_OF_SORT: Final[Mapping[str, Mapping[str, Callable[[Document], str]]]] = {
    "duration": {"TOOK": _took},
    "last-failure": {"LAST FAILURE": lambda row: local(row.get("lastFailureTime"))},
}
"""The column of what a list is sorted by, where it has none else."""


def print_jobs(rows: Iterable[Document], *, sort: str = "name") -> None:
    """One line for each job; what they are sorted by stands in it."""
    of_sort = _OF_SORT.get(sort, {})
    heads = ("NAME", "STATE", "SCHEDULE", "NEXT FIRE", *of_sort, "LAST RESULT")
    lines = [
        (
            row["name"], _state(row), row.get("words") or "-", _next_fire(row),
            *(shape_of(row) for shape_of in of_sort.values()), _came_to(row),
        )
        for row in rows
    ]  # fmt: skip
    print_table(heads, lines, none="no jobs", spare=("SCHEDULE", "NEXT FIRE"))


def print_job(row: Document, waits: Iterable[str] = ()) -> None:
    """Everything about one job; `waits`: what of it waits now, a line each."""
    spec, paused = row.get("spec") or {}, row.get("paused")
    pairs = [("name", row["name"]), ("state", _state(row))]
    if paused:
        because = f": {paused['reason']}" if paused.get("reason") else ""
        pairs.append(("paused", f"since {local(paused.get('sinceMs'))} by {paused.get('by') or '-'}{because}"))
    if row.get("problem"):
        pairs.append(("problem", row["problem"]))
    pairs += [("schedule", row.get("words") or "-"), ("next fire", _next_fire(row))]
    pairs += [
        ("last result", f"{_last(row)}  {why(row.get('lastResult') or {})}".rstrip()),
        ("last run", _run(row.get("lastRun"))),
    ]
    pairs += [("going now", f"{run['id']}  {run['state']} on {run['worker']}") for run in row.get("running") or ()]
    pairs += [("waiting", wait) for wait in waits]
    pairs.append(("saved", f"{local(row.get('savedMs'))} by {row.get('savedBy')}, revision {row.get('revision')}"))
    print_pairs(pairs)
    if spec:
        tell()
        print_spec(spec)


def print_spec(spec: Mapping[str, Any]) -> None:
    """Every field of a spec with its value."""
    print_pairs((field, value_text(value)) for field, value in spec.items() if field != "name")


def print_fires(fires: Iterable[Document]) -> None:
    """Upcoming fires, one a line; those that do not run say so."""
    for fire in fires:
        note = fire.get("note") if fire.get("open", True) else "closed by its calendar: will be skipped"
        tell(f"{fire['local'].replace('T', ' ')}" + (f"  ({note})" if note else ""))


def why_no_fire(row: Document) -> str:
    """Why a job has no next fire."""
    state = row.get("state", "gone")
    if state != "enabled":
        return f"it is {state}"
    if (row.get("spec") or {}).get("after"):
        return "it fires after the end of its last run"
    if (row.get("spec") or {}).get("cronExpr") == "@reboot":
        return "it fires when its machine boots"
    return "none of its fires is still to come"


def print_versions(versions: Iterable[Document]) -> None:
    """One line for each version."""
    rows = [
        (
            str(version["revision"]), local(version.get("savedMs")), version.get("savedBy") or "-",
            version.get("action") or "-", ", ".join(version.get("changed") or ()) or "-",
        )
        for version in versions
    ]  # fmt: skip
    print_table(("REVISION", "SAVED", "BY", "ACTION", "CHANGED"), rows, none="no versions", spare=("BY",))


def is_by_the_clock(document: Document) -> bool:
    """Whether the job's zone says when it runs."""
    return any(document.get(field) is not None for field in ("cronExpr", "at", "startAt", "endAt", "calendar"))


def print_deleted(jobs: Iterable[Document]) -> None:
    """One line for each job that was deleted."""
    rows = [
        (job["name"], local(job.get("deletedMs")), job.get("deletedBy") or "-", job.get("description") or "-")
        for job in jobs
    ]
    print_table(("NAME", "DELETED", "BY", "DESCRIPTION"), rows, none="no deleted jobs", spare=("DESCRIPTION", "BY"))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(field, before, after) for each that differs; objects such as `env` member by member, None for absent."""
    found = []
    for field in dict.fromkeys((*before, *after)):
        old, new = before.get(field), after.get(field)
        if isinstance(old, dict) and isinstance(new, dict):
            found += [(f"{field}.{member}", *values) for member, *values in differences(old, new)]
        elif old != new or isinstance(old, bool) != isinstance(new, bool):
            found.append((field, old, new))
    return found


def change_lines(changes: Iterable[tuple[str, Any, Any]], *, indent: str) -> Iterable[str]:
    """One line for each changed field."""
    for field, before, after in changes:
        yield f"{indent}{field}: {quoted(before)} -> {quoted(after)}"


def _state(row: Document) -> str:
    running, state = len(row.get("running") or ()), str(row["state"])
    if running:
        state += ", running" + (f" ({running})" if running > 1 else "")
    return f"{state}, blocked until {local(row['blockedUntil'])}" if row.get("blockedUntil") else state


def _next_fire(row: Document) -> str:
    fire = row.get("nextFire")
    if not fire:
        return "-"
    note = f"  ({fire['note']})" if fire.get("note") else ""
    return f"{str(fire['local']).replace('T', ' ')}{note}"


def _last(row: Document) -> str:
    last = row.get("lastResult")
    if not last:
        return "-"
    return f"{last.get('status')}  {local(last.get('endTime') or last.get('planTime'))}"


def _came_to(row: Document) -> str:
    """The last result; where there is none, how far its first fire has come."""
    waiting = row.get("waiting")
    if row.get("lastResult") or not (waiting or row.get("running")):
        return _last(row)
    return f"waiting since {local(waiting['planTime'])}: {waiting['reason']}" if waiting else "none yet, running"


def _run(run: Document | None) -> str:
    if not run:
        return "-"
    began = local(run.get("startTime"))
    length = took(run.get("startTime"), run.get("endTime"))
    return f"{run.get('status')}  {began}  took {length}  on {run.get('worker')}  {run.get('runId') or ''}"
