"""What happened to a run, to a job or to the system: something that may be told."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field


class EventKind(StrEnum):
    """What a rule can ask for."""

    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    KILLED = "killed"
    MISSED = "missed"
    SKIPPED = "skipped"
    SUCCEEDED = "succeeded"
    OUTPUT = "output"
    LATE = "late"
    RECOVERED = "recovered"
    SLOW = "slow"
    SILENT = "silent"
    FAST = "fast"
    WORKER_DOWN = "worker-down"
    WORKER_REFUSING = "worker-refusing"
    LOG_STORE_AWAY = "log-store-away"
    ETCD_FULL = "etcd-full"
    CLOCK_OFF = "clock-off"
    NO_LEADER = "no-leader"
    SPOOL_FILLING = "spool-filling"
    NOTICES_FAILING = "notices-failing"

    @property
    def is_of_the_system(self) -> bool:
        """Whether it belongs to no job."""
        return self in _OF_THE_SYSTEM


_OF_THE_SYSTEM: Final = frozenset(list(EventKind)[list(EventKind).index(EventKind.WORKER_DOWN) :])
DEFAULT_ON: Final = (
    EventKind.FAILED, EventKind.TIMEOUT, EventKind.LOST, EventKind.MISSED, EventKind.RECOVERED,
)  # fmt: skip
"""Of a rule that does not say."""


class Event(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One event. Its identity is (``order``, ``kind``); texts have at most 500 characters."""

    kind: EventKind
    at_ms: int
    job: str = ""
    """Empty: of the system."""
    subject: str = ""
    """Of the system: what it is about, e.g. a worker's name."""
    run: str = ""
    order: str = ""
    """Which of two records of one job is the newer: `common.runlog.documents.last_order`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    plan_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    worker: str | None = None
    attempt: int = 1
    reason: str | None = None
    exit_code: int | None = None
    err: str | None = None
    zone: str | None = None
