"""Runs, as tables and in words. Reads the API's documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cli.client import Document
from cli.printing import print_pairs, print_table, value_text
from cli.times import local, took

_TIMES: Final = ("createTime", "planTime", "claimTime", "scheduleTime", "startTime", "endTime", "rangeEndTime")
_FIRST: Final = (
    "id",
    "jobName",
    "state",
    "status",
    "err",
    "reason",
    *_TIMES,
    "worker",
    "host",
    "attempt",
    "trigger",
    "by",
)
"""The order in which a run's fields are told; others follow."""


def print_runs(runs: Iterable[Document]) -> None:
    """One line for each run, or fire that did not run."""
    heads = ("PLANNED", "JOB", "STATUS", "STARTED", "TOOK", "WORKER", "WHY", "RUN")
    rows = [
        (
            local(run.get("planTime")), str(run.get("jobName", "-")), verdict(run), local(run.get("startTime")),
            took(run.get("startTime"), run.get("endTime")), run.get("worker") or "-", why(run) or "-",
            str(run.get("id")),
        )
        for run in runs
    ]  # fmt: skip
    print_table(heads, rows, none="no runs")


def print_run(run: Document) -> None:
    """Everything about one run but for its output."""
    fields = [field for field in _FIRST if field in run] + [field for field in run if field not in _FIRST]
    print_pairs((field, _text(field, run)) for field in fields if field != "output" and run[field] not in (None, ""))


def verdict(run: Document) -> str:
    """Its status, or where it is on the way to one."""
    return str(run.get("status") or run.get("state") or "-")


def why(run: Document) -> str:
    """Why it did not succeed, or did not run."""
    text = str(run.get("err") or run.get("reason") or "")
    return f"{text} ({run['count']} fires)" if run.get("count") else text


def _text(field: str, run: Document) -> str:
    return local(run[field]) if field in _TIMES else value_text(run[field])
