"""Where everything lies in etcd: the one place that spells a key, and reads one back.

Pure: no clock, no I/O. The table of keys, with who writes each, is in ``docs/internals/protocol.md``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from common.protocol.txn import KeyValue

_PLAN_DIGITS = 16
MAX_MARK_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: nothing is planned later, and no date can be."""


CHAIN: Final = "next"
"""In place of a plan time, in the key of the request for the next run of an ``after`` job."""


_OF: Final = "~"
"""Between job and worker in the name of a worker's own sequence; no job's name has it."""


def sequence_name(job: str, worker: str) -> str:
    """What a broadcast job's fires on one worker go by, in marks, locks and runs."""
    return f"{job}{_OF}{worker}"


def split_sequence(sequence: str) -> tuple[str, str | None]:
    """The job, and of a broadcast job the worker whose own sequence this is."""
    job, _, worker = sequence.partition(_OF)
    return job, worker or None


class Watched(StrEnum):
    """The watched prefixes of which no write may be missed: each write puts a sentinel, too, ``seen/<name>``."""

    JOBS = "jobs"
    REQUESTS = "requests"
    KILLS = "kills"


class RunId(Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """The identity of one run: job, fire and attempt; written ``<job>@<plan ms or r-id>#<attempt>``."""

    job: str
    """The sequence of fires that it is one of: the job's, or of a broadcast job ``<job>~<worker>``."""
    fire: str
    """The plan time in milliseconds since the epoch, in decimal; or ``r-...`` for a run that no schedule planned."""
    attempt: int = 1

    @classmethod
    def planned(cls, job: str, plan_ms: int, attempt: int = 1) -> Self:
        """The run of the fire that the schedule plans at ``plan_ms``."""
        return cls(job, str(plan_ms), attempt)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``<job>@<fire>#<attempt>``; ValueError where it is none."""
        job, at, rest = text.rpartition("@")
        fire, hash_, attempt = rest.partition("#")
        if not (job and at and fire and hash_ and _is_number(attempt)):
            raise ValueError(f"{text!r} is not a run id: <job>@<plan time in ms>#<attempt>")
        return cls(job, fire, int(attempt))

    @property
    def job_name(self) -> str:
        """The job, also of a run in a worker's own sequence."""
        return self.job.partition(_OF)[0]

    @property
    def of_worker(self) -> str | None:
        """The worker whose own sequence it belongs to; None: the job's, which any eligible worker may run."""
        return self.job.partition(_OF)[2] or None

    @property
    def plan_ms(self) -> int | None:
        """The plan time, None where no schedule planned this run."""
        return int(self.fire) if _is_number(self.fire) else None

    @property
    def next_attempt(self) -> Self:
        return replace(self, attempt=self.attempt + 1)

    @property
    def attempt_before(self) -> Self:
        return replace(self, attempt=self.attempt - 1)

    @property
    def asked_or_planned_ms(self) -> int:
        """When it was planned for, or, of a run that was asked for, when it was; 0: that is not known."""
        text = self.fire[2:].partition("-")[0] if self.fire.startswith("r-") else self.fire
        return int(text) if _is_number(text) else 0

    def __str__(self) -> str:
        return f"{self.job}@{self.fire}#{self.attempt}"


def encode_mark(plan_ms: int) -> bytes:
    """A mark's value: exactly 16 digits, so that equal marks are equal bytes. ValueError where it does not fit."""
    if not 0 <= plan_ms <= MAX_MARK_MS:
        raise ValueError(f"a mark lies between 0 and {MAX_MARK_MS}, not at {plan_ms}")
    return b"%016d" % plan_ms


def decode_mark(value: bytes) -> int:
    """The plan time in a mark; ValueError where the value is not 16 digits."""
    if len(value) != _PLAN_DIGITS or not value.isdigit() or int(value) > MAX_MARK_MS:
        raise ValueError(f"a mark is exactly {_PLAN_DIGITS} digits, at most {MAX_MARK_MS}; this is {value[:40]!r}")
    return int(value)


def read_mark(mark: KeyValue | None) -> int | None:
    """The mark in a key; None where it is missing or unreadable."""
    try:
        return None if mark is None else decode_mark(mark.value)
    except ValueError:
        return None


def holder_of(lock: KeyValue) -> str:
    """The run that holds a lock, as the lock says it; anybody may have written that."""
    return lock.value.decode(errors="replace")[:300]


class Keys:
    """Spells every key under one prefix, and takes them apart again."""

    __slots__ = ("beats", "channels", "clocks", "dedupe", "drains", "give_ups", "jobs", "kills", "locks", "marks",
                 "notifier", "prefix", "requests", "roster", "rules", "runs", "seen_prefix", "silences", "steward",
                 "tails", "versions", "workers")  # fmt: skip

    def __init__(self, prefix: str = "/etcron") -> None:
        self.prefix = prefix.rstrip("/") + "/"
        self.jobs = self.prefix + "jobs/"
        self.marks = self.prefix + "marks/"
        self.runs = self.prefix + "runs/"
        self.locks = self.prefix + "locks/"
        self.requests = self.prefix + "requests/"
        self.kills = self.prefix + "kills/"
        self.give_ups = self.prefix + "giveups/"
        self.workers = self.prefix + "workers/"
        self.beats = self.prefix + "beats/"
        self.drains = self.prefix + "drains/"
        self.roster = self.prefix + "roster/"
        self.dedupe = self.prefix + "dedupe/"
        self.versions = self.prefix + "versions/"
        self.channels = self.prefix + "channels/"
        self.rules = self.prefix + "rules/"
        self.silences = self.prefix + "silences/"
        self.tails = self.prefix + "tails/"
        self.clocks = self.prefix + "clocks"
        self.steward = self.prefix + "leader/steward"
        self.notifier = self.prefix + "leader/notifier"
        self.seen_prefix = self.prefix + "seen/"

    def job(self, job: str) -> str:
        return self.jobs + job

    def mark(self, job: str) -> str:
        return self.marks + job

    def lock(self, job: str) -> str:
        return self.locks + job

    def run(self, run: RunId) -> str:
        return self.runs + _tail(run)

    def request(self, run: RunId) -> str:
        return self.requests + _tail(run)

    def kill(self, run: RunId) -> str:
        return self.kills + _tail(run)

    def give_up(self, run: RunId) -> str:
        return self.give_ups + _tail(run)

    def give_ups_of(self, job: str) -> str:
        return f"{self.give_ups}{job}/"

    def chain(self, job: str) -> str:
        """Where the next run of an ``after`` job is asked for: one request at most; its plan time is inside."""
        return f"{self.requests}{job}/{CHAIN}/1"

    def runs_of(self, job: str) -> str:
        return f"{self.runs}{job}/"

    def own_runs_of(self, job: str) -> str:
        """Where the runs of all workers' own sequences of a broadcast job begin."""
        return f"{self.runs}{job}{_OF}"

    def requests_of(self, job: str) -> str:
        return f"{self.requests}{job}/"

    def own_requests_of(self, job: str) -> str:
        """Where the requests of all workers' own sequences of a broadcast job begin."""
        return f"{self.requests}{job}{_OF}"

    def worker(self, worker: str, lease_hex: str) -> str:
        return f"{self.workers}{worker}/{lease_hex}"

    def worker_sessions(self, worker: str) -> str:
        return f"{self.workers}{worker}/"

    def beat(self, process: str) -> str:
        return self.beats + process

    def drain(self, worker: str) -> str:
        return self.drains + worker

    def roster_entry(self, worker: str) -> str:
        """What is remembered of a worker when it has gone."""
        return self.roster + worker

    def deduped(self, job: str, digest: str) -> str:
        """Who has been asked for under one dedupe key; ``digest`` is the key's SHA-256 in hex."""
        return f"{self.dedupe}{job}/{digest}"

    def version(self, job: str, revision: int) -> str:
        """A former spec of the job, until the log store has it."""
        return f"{self.versions}{job}/{revision}"

    def channel(self, name: str) -> str:
        return self.channels + name

    def rule(self, name: str) -> str:
        return self.rules + name

    def silence(self, silence_id: str) -> str:
        return self.silences + silence_id

    def tails_of(self, worker: str) -> str:
        """Where the looks at this worker's runs begin."""
        return f"{self.tails}{worker}/"

    def tail(self, worker: str, run: RunId, manager: str) -> str:
        """That a user looks at the run's output through this manager."""
        return f"{self.tails_of(worker)}{_tail(run)}/{manager}"

    def tail_of(self, key: str) -> tuple[RunId, str]:
        """The run and the manager in a key under ``tails/``; ValueError where it is none."""
        worker, _, rest = key[len(self.tails) :].partition("/")
        path, _, manager = rest.rpartition("/")
        if not (worker and manager):
            raise ValueError(f"{key!r} does not name a look: tails/<worker>/<job>/<plan>/<attempt>/<manager>")
        return self.run_of(self.runs + path), manager

    def seen(self, prefix: Watched) -> str:
        return self.seen_prefix + prefix

    def job_of(self, key: str) -> str:
        """The job in a key under ``jobs/``, ``marks/`` or ``locks/``; in the latter two, the sequence."""
        return key[len(self.prefix) :].partition("/")[2]

    def run_of(self, key: str) -> RunId:
        """The run in a key under ``runs/``, ``requests/``, ``kills/`` or ``giveups/``; ValueError where it is none."""
        job, _, rest = key[len(self.prefix) :].partition("/")[2].partition("/")
        fire, _, attempt = rest.partition("/")
        if not (job and fire and _is_number(attempt) and is_text(key)):
            raise ValueError(f"{key!r} does not name a run: <job>/<plan>/<attempt>")
        run_id = RunId(job, str(int(fire)) if _is_number(fire) else fire, int(attempt))
        if not key.endswith(f"/{_tail(run_id)}"):
            raise ValueError(f"{key!r} names a run in another spelling than {_tail(run_id)!r}")
        return run_id

    def session_of(self, key: str) -> tuple[str, str]:
        """The worker's name and the lease id (hex) in a key under ``workers/``; ValueError where it is none."""
        worker, _, lease_hex = key[len(self.workers) :].partition("/")
        if not worker or not lease_hex or "/" in lease_hex:
            raise ValueError(f"{key!r} does not name a session: workers/<worker>/<lease id>")
        return worker, lease_hex


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def is_text(key: str) -> bool:
    """Whether its bytes in etcd are text; what is made of any others could not be hashed, or written down."""
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)


def _tail(run: RunId) -> str:
    fire = run.fire.zfill(_PLAN_DIGITS) if _is_number(run.fire) else run.fire
    return f"{run.job}/{fire}/{run.attempt}"
