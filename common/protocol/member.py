"""A worker as it describes itself under its session's key ``workers/<worker>/<lease id>``.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from common.protocol.compares import mod_revision_is, none_under
from common.protocol.keys import Keys
from common.protocol.txn import Delete, KeyValue, Owner, Put, Share, Txn
from common.protocol.values import MALFORMED, brief, instant, instant_or_none, name, number, texts, whole, words_or_none

MOST_PROCESSES: Final = 16
"""Of a run that is ending: so many are named."""
MOST_ENDING: Final = 32
"""Runs that a beat names as ending."""
MOST_USERS: Final = 256
"""That one worker names."""
MOST_SLOTS: Final = 1_000_000
"""Of one worker: what fires are spread by is reckoned with them."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def is_worker_name(text: str) -> bool:
    """Whether a worker may be called so: it stands in keys and in the names of sequences."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """A worker, known by its name; its data directory, known by its instance."""

    worker: str
    instance: str
    """Random, written once into the data directory: what this directory's worker has left behind, it may settle."""
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsAs:
    """Whom a worker runs commands as, by its own configuration."""

    uid: int
    """Its own."""
    default: str | None = None
    """Jobs without a user; None: itself."""
    allowed: tuple[str, ...] = ()
    """Whom jobs may name."""

    def to_document(self) -> dict[str, Any]:
        """As it stands in the session's key, and in the API."""
        return {"uid": self.uid, "default": self.default, "allowed": list(self.allowed)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """ValueError, TypeError, LookupError: it is none."""
        allowed = tuple(name(user) for user in document["allowed"][:MOST_USERS])
        return cls(uid=whole(document["uid"]), default=words_or_none(document.get("default")), allowed=allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One session of one worker."""

    worker: str
    session: str
    """The lease id in hex."""
    instance: str
    """Random, written once into the worker's data directory."""
    host: str
    address: str
    slots: int
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    tzdata: str = ""
    pid: int = 0
    since_ms: int = 0
    not_accepting: str | None = None
    """Why it takes no new fires; None: it takes them."""
    isolates: bool = False
    """Whether its commands run as other users than its own: else they can read all that it can."""
    runs_as: RunsAs | None = None
    """None: an older worker, which does not say."""
    attached: bool = True
    """Whether the key hangs on the lease that its name tells; one that does not counts for nothing."""

    def to_json(self) -> bytes:
        """The value of the session's key."""
        document: dict[str, Any] = {
            "host": self.host, "address": self.address, "instance": self.instance, "slots": self.slots,
            "labels": dict(self.labels), "version": self.version, "tzdata": self.tzdata, "pid": self.pid,
            "sinceMs": self.since_ms,
        }  # fmt: skip
        if self.isolates:
            document["isolates"] = True
        if self.runs_as is not None:
            document["runsAs"] = self.runs_as.to_document()
        if self.not_accepting is not None:
            document["notAccepting"] = self.not_accepting
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes, *, worker: str, session: str, lease: int) -> Self:
        """Read a session key's value; ``lease`` is the one that the key hangs on. ValueError where it is none."""
        try:
            document = json.loads(value)
            return cls(
                worker=worker, session=session, attached=lease == int(session, 16),
                instance=name(document["instance"]), host=name(document["host"]), address=name(document["address"]),
                slots=whole(document["slots"], most=MOST_SLOTS), labels=texts(document.get("labels", {})),
                version=name(document.get("version", "")), tzdata=name(document.get("tzdata", "")),
                pid=whole(document.get("pid", 0)), since_ms=instant(document.get("sinceMs", 0)),
                not_accepting=words_or_none(document.get("notAccepting")), isolates=document.get("isolates") is True,
                runs_as=None if document.get("runsAs") is None else RunsAs.from_document(document["runsAs"]),
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a worker's session: {brief(error)}") from error

    @property
    def accepts(self) -> bool:
        """Whether it may be ranked for new fires."""
        return self.attached and self.not_accepting is None and self.slots > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingRun:
    """A run that has ended, and of whose process group something lives that its worker cannot end."""

    run: str
    """Its id."""
    since_ms: int
    processes: tuple[int, ...] = ()
    """Process ids of what lives, 16 at most."""

    def to_document(self) -> dict[str, Any]:
        """As it stands in a beat."""
        return {"run": self.run, "sinceMs": self.since_ms, "processes": list(self.processes)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """ValueError, TypeError, LookupError: it is none."""
        processes = tuple(whole(pid) for pid in document["processes"][:MOST_PROCESSES])
        return cls(run=name(document["run"]), since_ms=instant(document["sinceMs"]), processes=processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a process says of itself every 3 s under ``beats/<process>``."""

    kind: str
    """``worker`` or ``manager``."""
    wall_ms: int
    """Its wall clock when it was sent."""
    free_slots: int = 0
    running: int = 0
    waiting: int = 0
    """Due fires that wait for a slot."""
    unsent_records: int = 0
    """Records that the log store has not acknowledged yet."""
    load: float = 0.0
    """Load average of the last minute."""
    memory_percent: float = 0.0
    problem: str | None = None
    """What keeps it from working as it should, in words."""
    not_permitted: str | None = None
    """What etcd does not let it do as the steward, with what helps."""
    clock: str = ""
    """Which clock tells ``wall_ms``: another name at each start of the process, and after each jump."""
    round_trip_ms: int | None = None
    """How long the write of the beat before this one took; None: it failed, or there was none."""
    ending_count: int = 0
    """Runs that are ending: their locks wait for processes that cannot be ended."""
    ending: tuple[EndingRun, ...] = ()
    """The oldest 32 of them."""

    def to_json(self) -> bytes:
        """The value of the beat's key."""
        document = {name: getattr(self, attribute) for attribute, name in _BEAT_FIELDS.items()}
        if self.ending_count:
            document["endingCount"] = self.ending_count
            document["ending"] = [one.to_document() for one in self.ending[:MOST_ENDING]]
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Read a beat; ValueError where it is none."""
        try:
            document = json.loads(value)
            known = {**_BEAT_FIELDS, **_ONLY_WHERE_SOME_END}
            values = {attr: document[name] for attr, name in known.items() if name in document}
            return cls(**{attribute: _READ.get(attribute, whole)(value) for attribute, value in values.items()})
        except MALFORMED as error:
            raise ValueError(f"not a beat: {brief(error)}") from error


_BEAT_FIELDS = {
    "kind": "kind", "wall_ms": "wallMs", "free_slots": "freeSlots", "running": "running", "waiting": "waiting",
    "unsent_records": "unsentRecords", "load": "load", "memory_percent": "memoryPercent", "problem": "problem",
    "not_permitted": "notPermitted",
    "clock": "clock", "round_trip_ms": "roundTripMs",
}  # fmt: skip
_ONLY_WHERE_SOME_END = {"ending_count": "endingCount", "ending": "ending"}


def _ending(value: Any) -> tuple[EndingRun, ...]:
    return tuple(EndingRun.from_document(one) for one in value[:MOST_ENDING])


_READ: Mapping[str, Callable[[object], Any]] = {
    "kind": name, "wall_ms": instant, "load": number, "memory_percent": number, "problem": words_or_none,
    "not_permitted": words_or_none,
    "clock": name, "round_trip_ms": instant_or_none, "ending": _ending,
}  # fmt: skip
"""What a beat's values are read by; the others are whole numbers."""


def only_session(keys: Keys, worker: str, own: Sequence[KeyValue]) -> Share:
    """What opens a session of this name beside no other one; ``own``: dead ones of this very instance, as they were
    read, go."""
    if not own:
        return Share([none_under(keys.worker_sessions(worker))], [])
    return Share([mod_revision_is(kv.key, kv.mod_revision) for kv in own], [Delete(kv.key) for kv in own])


def put_beat(keys: Keys, beat: Beat, process: str, session: Owner) -> Txn:
    """Under the lease of the session, while that lives."""
    return Txn([session.alive], [Put(keys.beat(process), beat.to_json(), session.lease_id)])


BEAT_S: Final = 3.0
SOON_S: Final = 0.5
_SOON: Final = 4
"""Beats of a new clock that follow each other soon: the first makes the steward listen well, and a beat is counted
once the next one says that it was quick."""


class BeatPace:
    """One process's beats."""

    def __init__(self) -> None:
        self._clock = ""
        self._sent = 0

    def after(self, clock: str) -> float:
        """Seconds from a beat of this clock to the next one."""
        if clock != self._clock:
            self._clock, self._sent = clock, 0
        self._sent += 1
        return SOON_S if self._sent < _SOON else BEAT_S
