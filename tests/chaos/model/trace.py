"""What led to a violation: the commits and processes of its job, and the faults, up to it."""

from __future__ import annotations

import re

from common.protocol.run import RunRecord
from tests.chaos.model.checker import Violation
from tests.chaos.model.etcd import Commit
from tests.chaos.model.settings import KEYS
from tests.chaos.model.world import History

_LINES = 60


def trace(history: History, violation: Violation) -> str:
    """The last lines before it, oldest first."""
    found = re.search(r"(?:skip|queue|replace|allow)\d", violation.what)
    job = found[0] if found else ""
    lines = [(time, f"FAULT {what}") for time, what in history.faults]
    lines += [(commit.time, line) for commit in history.commits if (line := _line(commit, job)) is not None]
    for start in history.starts:
        if start.run.job == job:
            lines.append((start.time, f"START {start.run} on {start.worker} fence {start.fence} frozen {start.frozen}"))
            if start.end is not None:
                lines.append((start.end, f"END   {start.run} {start.how}"))
    lines += [
        (time, f"SPOOL {worker} {_told(record)}")
        for time, worker, record in history.spooled
        if record.run_id.job == job
    ]
    lines.sort(key=lambda one: one[0])
    until = [line for line in lines if line[0] <= violation.time + 500]
    return "\n".join(f"{time} {what}" for time, what in until[-_LINES:])


def _line(commit: Commit, job: str) -> str | None:
    told = [f"put {put.key}={put.value.decode()}" for put in commit.puts if _is_of(put.key, job)]
    told += [f"delete {key}" for key in commit.deletes if _is_of(key, job)]
    return f"r{commit.rev} {commit.who}: " + "; ".join(told) if told else None


def _is_of(key: str, job: str) -> bool:
    return key.startswith(KEYS.workers) or job in key.split("/")


def _told(record: RunRecord) -> str:
    return f"{record.run_id} {record.status} {record.reason or ''}"
