"""A history, joined: runs with their evidence and their record, jobs with what they were when."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.history import (
    Call,
    Event,
    Evidence,
    Exit,
    Fault,
    Header,
    Leftover,
    Mark,
    Note,
    Op,
    Stage,
    Stored,
)

Record = dict[str, Any]
RAN = ("success", "failed", "timeout", "killed", "lost")
NEVER_RAN = ("skipped", "missed")
CLOCK, DISK_FULL, DISK_HANGS, MOUNT_HANGS = "clock", "disk full", "disk hangs", "mount hangs"
MACHINE_GONE, WITH_ITS_DISK = "the machine is gone", ", and its disk with it"
NO_DESCRIPTORS, NO_PROCESSES = "no more descriptors", "no more processes"
"""How the harness begins to call these faults."""
_SET_TO = re.compile(r"[+-]\d+(?:\.\d+)?")
"""In what the harness says of a wrong clock: how many seconds it is off."""
_CLOCK_NOTICED_MS = 3000
"""A wall clock is wrong or right again so long after the harness has made it so."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that this history breaks."""

    promise: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.promise}  {self.subject}: {self.text}"


@dataclass(frozen=True, slots=True, order=True)
class Id:
    """``<sequence>@<fire>#<attempt>``, taken apart."""

    sequence: str
    fire: str
    attempt: int

    @classmethod
    def of(cls, text: str) -> Id:
        sequence, _, rest = text.rpartition("@")
        fire, _, attempt = rest.partition("#")
        return cls(sequence, fire, int(attempt))

    @property
    def job(self) -> str:
        return self.sequence.partition("~")[0]

    @property
    def plan_ms(self) -> int | None:
        """None: no schedule planned it."""
        return int(self.fire) if self.fire.isdigit() else None

    def __str__(self) -> str:
        return f"{self.sequence}@{self.fire}#{self.attempt}"


@dataclass(slots=True)
class Run:
    """One run: what it wrote of itself, and what is recorded of it."""

    id: Id
    starts: list[Evidence] = field(default_factory=list)
    lasts: list[Evidence] = field(default_factory=list)
    ends: list[Evidence] = field(default_factory=list)
    background: list[Evidence] = field(default_factory=list)
    departed: list[Evidence] = field(default_factory=list)
    lingering: list[Evidence] = field(default_factory=list)
    record: Record | None = None

    @property
    def signs(self) -> list[Evidence]:
        """Of all that ends with the run, and so exists as long as it does."""
        return [*self.starts, *self.lasts, *self.ends, *self.background]

    @property
    def status(self) -> str:
        return str(self.record["status"]) if self.record else "none"

    @property
    def first_ns(self) -> int:
        return min(one.boot_ns for one in self.signs)

    @property
    def last_ns(self) -> int:
        return max(one.boot_ns for one in self.signs)

    @property
    def holds_until_ns(self) -> int:
        """As long as anything of its process group lives."""
        return max(one.boot_ns for one in (*self.signs, *self.lingering))


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """A job as one edit left it: from somewhere in [began, begun] to somewhere in [ends, ended]."""

    spec: dict[str, Any] | None
    revision: int | None
    began_ms: int
    begun_ms: int
    ends_ms: float
    ended_ms: float

    def may_hold(self, ms: int) -> bool:
        return self.began_ms <= ms <= self.ended_ms


@dataclass(slots=True)
class View:
    """See the module."""

    header: Header
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    runs: dict[Id, Run] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    """Ids of which there is more than one record."""
    eras: dict[str, list[Era]] = field(default_factory=dict)
    unblocked: dict[str, list[Call]] = field(default_factory=dict)
    """By job."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> View:
        """ValueError where the history has no header."""
        found = list(events)
        header = next((event for event in found if isinstance(event, Header)), None)
        if header is None:
            raise ValueError("the history has no header")
        view = cls(header)
        for event in found:
            view._take(event)
        edits = defaultdict(list)
        for call in view.calls:
            if call.op.is_edit:
                edits[call.job].append(call)
        view.unblocked = {job: [one for one in calls if one.op is Op.UNBLOCK] for job, calls in edits.items()}
        view.eras = {job: list(_eras(calls, header.claim_lead_ms)) for job, calls in edits.items()}
        return view

    def records(self) -> Iterator[tuple[Run, Record]]:
        for run in self.runs.values():
            if run.record is not None:
                yield run, run.record

    def spec_of(self, job: str) -> dict[str, Any]:
        """What the job was at first; empty: nobody saved it."""
        return next((era.spec for era in self.eras.get(job, ()) if era.spec), {})

    def faults_between(self, lo_ms: float, hi_ms: float) -> list[Fault]:
        return [fault for fault in self.faults if fault.from_ms <= hi_ms and fault.until_ms >= lo_ms]

    def first_attempts(self, run: Id) -> set[int]:
        """The numbers that the first attempt of this fire may have: up to the old mark of a job that was unblocked,
        that of its unblocking, too."""
        again = [one for one in self.unblocked.get(run.job, ()) if (run.plan_ms or 0) <= (one.again_until_ms or 0)]
        return {1, *(one.again_attempt or 1 for one in again)}

    def has_lost_disk(self, worker: str, since_ms: float) -> bool:
        """Whether what this worker had on its disk then has been lost."""
        return any(
            fault.target == worker and fault.what.endswith(WITH_ITS_DISK) and fault.until_ms >= since_ms
            for fault in self.faults
        )

    def has_wrong_clock(self, worker: str, lo_ms: float, hi_ms: float) -> bool:
        """Whether the times that this worker writes in [lo, hi] may be wrong."""
        return self._is_hit(CLOCK, worker, lo_ms, hi_ms, _CLOCK_NOTICED_MS)

    def written_at(self, recorded_ms: int, worker: str | None = None) -> set[int]:
        """When this date may have been written by a worker (None: by any of them, the steward): at that very time, or
        at another one at which the harness had its clock off by just as much."""
        writers = self._workers() if worker is None else {worker}
        faults = [one for one in self.faults if one.target in writers and one.what.startswith(CLOCK)]
        found = {recorded_ms}
        for fault in faults:
            for off_s in _SET_TO.findall(fault.what):
                true_ms = recorded_ms - round(float(off_s) * 1000)
                if fault.from_ms - _CLOCK_NOTICED_MS <= true_ms <= fault.until_ms + _CLOCK_NOTICED_MS:
                    found.add(true_ms)
        return found

    def _workers(self) -> set[str]:
        """All of which there is evidence."""
        return {start.worker for run in self.runs.values() for start in run.starts}

    def cannot_write(self, worker: str, lo_ms: float, hi_ms: float) -> bool:
        """Whether at any time in [lo, hi] this worker's disk was full or hung, or it could open no file."""
        return any(self._is_hit(what, worker, lo_ms, hi_ms, 0) for what in (DISK_FULL, DISK_HANGS, NO_DESCRIPTORS))

    def _is_hit(self, what: str, worker: str, lo_ms: float, hi_ms: float, slack_ms: int) -> bool:
        faults = self.faults_between(lo_ms - slack_ms, hi_ms + slack_ms)
        return any(fault.target == worker and fault.what.startswith(what) for fault in faults)

    def _take(self, event: Event) -> None:
        match event:
            case Call() | Fault() | Exit() | Stage() | Leftover() | Note():
                self._lists()[type(event)].append(event)
            case Evidence():
                self._take_evidence(event)
            case Stored():
                run = self._run(event.document["_id"])
                if run.record is not None:
                    self.doubled.append(str(run.id))
                run.record = event.document
            case Header():
                pass

    def _lists(self) -> dict[type[Event], list[Any]]:
        return {Call: self.calls, Fault: self.faults, Exit: self.exits, Stage: self.stages, Leftover: self.leftovers,
                Note: self.notes}  # fmt: skip

    def _take_evidence(self, event: Evidence) -> None:
        run = self._run(event.run)
        kept = {Mark.START: run.starts, Mark.LAST: run.lasts, Mark.END: run.ends, Mark.BACKGROUND: run.background,
                Mark.DEPARTED: run.departed, Mark.LINGERS: run.lingering}  # fmt: skip
        kept[event.mark].append(event)

    def _run(self, text: str) -> Run:
        run_id = Id.of(text)
        return self.runs.setdefault(run_id, Run(run_id))


def _eras(edits: list[Call], lead_ms: int) -> Iterator[Era]:
    """What is claimed ahead of its time may move a job's mark so far beyond an edit; and 50 ms are for rounding."""
    slack_ms = lead_ms + 50
    ordered = sorted(edits, key=lambda call: call.sent_ms)
    forever = float("inf")
    yield Era(spec=None, revision=None, began_ms=0, begun_ms=0, ends_ms=ordered[0].sent_ms,
              ended_ms=ordered[0].ack_ms + slack_ms)  # fmt: skip
    for number, call in enumerate(ordered):
        after = ordered[number + 1] if number + 1 < len(ordered) else None
        yield Era(
            spec=call.spec if call.op in (Op.SAVE, Op.RESUME, Op.UNBLOCK) else None, revision=call.job_revision,
            began_ms=call.sent_ms, begun_ms=call.ack_ms + slack_ms,
            ends_ms=after.sent_ms if after else forever, ended_ms=after.ack_ms + slack_ms if after else forever,
        )  # fmt: skip
