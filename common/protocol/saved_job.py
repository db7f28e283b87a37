"""A job as it lies in etcd: the spec, and what its save wrote beside it; and a former spec of it.

A job with fields that not every version knows says which of them a reader must know (``mustKnow``), and which version
wrote it (``savedVersion``). A reader ignores the others that it does not know, and sets the job aside for want of one
of these. Where a job says nothing, every field has to be known.

A former spec (``JobVersion``) lies under ``versions/<job>/<revision>``, put by the very transaction that replaced it,
until the log store has it. Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from common.errors import InvalidInputError, Problem
from common.jobs.forms import parse_known
from common.jobs.job import NEWER, JobSpec
from common.jobs.reader import KNOWN, load_object
from common.jobs.reading import printable
from common.jobs.values import is_job_name
from common.json_text import to_json
from common.protocol.signatures import SIGNATURE, Seal, Signature, Trust, digest
from common.protocol.values import MALFORMED, brief, instant, is_instant, text, tree, whole, words, words_or_none
from common.schedules.job_calendar import LeavingOut, Span
from common.schedules.schedule import Schedule
from common.version import VERSION


class EditKind(StrEnum):
    """What made one version of a job into the next."""

    SAVE = "save"
    PAUSE = "pause"
    RESUME = "resume"
    RESTORE = "restore"
    UNBLOCK = "unblock"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersion:
    """One former spec. Times in ms since the epoch."""

    job: str
    revision: int
    """The mod revision that the job's key had under it."""
    spec: Mapping[str, Any]
    """As stored: what differs from the defaults."""
    saved_ms: int
    saved_by: str | None
    ended_ms: int
    ended_by: str | None
    ended_with: EditKind
    paused_reason: str | None = None
    """Why it was paused, where it was and the user gave a reason."""
    signature: Signature | None = None
    """Of the manager that saved it."""
    beside: str = ""
    """Where it is signed: the digest of what the save wrote beside the spec."""

    def fault(self, trust: Trust) -> str | None:
        """Why no manager's word vouches for it; None: a signature does."""
        return trust.job_fault(self.job, self.signature, spec=self.spec, beside=self.beside)

    def to_document(self) -> dict[str, Any]:
        """Its JSON, but for the job's name and revision, which stand in the key."""
        document = {
            "spec": dict(self.spec), "savedMs": self.saved_ms, "savedBy": self.saved_by, "endedMs": self.ended_ms,
            "endedBy": self.ended_by, "endedWith": str(self.ended_with),
        }  # fmt: skip
        if self.paused_reason is not None:
            document["pausedReason"] = self.paused_reason
        if self.signature is not None:
            document |= {SIGNATURE: self.signature.to_document(), "beside": self.beside}
        return document

    def to_json(self) -> bytes:
        """The value of its key."""
        return to_json(self.to_document())

    @classmethod
    def from_json(cls, value: bytes, *, job: str, revision: int) -> Self:
        """Read the value of a key; ValueError where it is none of ours."""
        try:
            document = json.loads(value)
        except MALFORMED as error:
            raise ValueError(f"not a version of a job: {brief(error)}") from error
        return cls.from_document(document, job=job, revision=revision)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, job: str, revision: int) -> Self:
        """Read a document; ValueError where it is none of ours."""
        try:
            return cls(
                job=job, revision=whole(revision), spec=tree(document["spec"]), saved_ms=instant(document["savedMs"]),
                saved_by=words_or_none(document["savedBy"]), ended_ms=instant(document["endedMs"]),
                ended_by=words_or_none(document["endedBy"]), ended_with=EditKind(document["endedWith"]),
                paused_reason=_words(document.get("pausedReason")),
                signature=Signature.read(document.get(SIGNATURE)), beside=text(document.get("beside", "")),
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a version of a job: {brief(error)}") from error


def changed_fields(older: Mapping[str, Any], newer: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the fields that differ between two stored specs, in order."""
    names = dict.fromkeys((*newer, *older))
    absent = object()
    return tuple(name for name in names if older.get(name, absent) != newer.get(name, absent))


_OF_THE_SAVE: Final = frozenset(
    {"anchorMs", "savedMs", "savedBy", "pausedMs", "pausedBy", "pausedReason", "again", SIGNATURE}
)
_BESIDE: Final = _OF_THE_SAVE - {SIGNATURE} | {"mustKnow", "savedVersion"}
"""What is signed beside the spec: also what lets a reader leave out fields."""
_NEWER: Final = {**NEWER, SIGNATURE: False}
_NAMED: Final = 5
"""How many fields are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Since when, by whom and why a job is paused."""

    since_ms: int
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What a wrong clock had decided before its time, and runs at its time all the same, but for what was started."""

    until_ms: int
    """Fires up to here."""
    attempt: int
    """Their first attempt: no older record stands in its way."""
    started: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    """Those that are not started again: of the job (under ``""``), of a broadcast job by worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedJob:
    """A job as it lies in etcd: the spec, and what its save wrote beside it."""

    spec: JobSpec
    anchor_ms: int
    """The mark that the save wrote: no fire of this spec is planned at or before it."""
    saved_ms: int = 0
    saved_by: str | None = None
    pause: Pause | None = None
    """Only beside a spec that is not enabled; None there: an older manager wrote it."""
    again: Again | None = None
    signature: Signature | None = None

    @property
    def schedule(self) -> Schedule:
        """The fires that are to be decided."""
        return planned_by(self.spec, self.again)

    def sealed(self, seal: Seal, generation: int) -> Self:
        """The same, signed."""
        unsigned = replace(self, signature=Signature(key="", generation=generation, value=""))
        parts = Signed.parts_of(unsigned.to_document())
        signature = seal.job(self.spec.name, generation, spec=parts.spec, beside=parts.beside)
        return replace(self, signature=signature)

    def to_json(self) -> bytes:
        """The value of ``jobs/<job>``: compact JSON, defaults left out."""
        return json.dumps(self.to_document(), separators=(",", ":"), ensure_ascii=False).encode()

    def to_document(self) -> dict[str, Any]:
        """Its JSON."""
        document = self.spec.to_stored() | {"anchorMs": self.anchor_ms, "savedMs": self.saved_ms}
        if self.saved_by is not None:
            document["savedBy"] = self.saved_by
        if self.pause is not None:
            paused = {"pausedMs": self.pause.since_ms, "pausedBy": self.pause.by, "pausedReason": self.pause.reason}
            document.update((name, value) for name, value in paused.items() if value is not None)
        if self.again is not None:
            again = self.again
            document["again"] = {"untilMs": again.until_ms, "attempt": again.attempt, "started": again.started}
        if self.signature is not None:
            document[SIGNATURE] = self.signature.to_document()
        document.update(fields_for_older(document, _NEWER))
        return document

    @classmethod
    def from_json(cls, value: bytes, *, name: str) -> Self:
        """Read the value of ``jobs/<name>``; InvalidInputError where it is none of ours."""
        if not is_job_name(name):
            # What lies under such a name is no job, whatever it says: saving it as it is called cannot help.
            message = f"{name[:60]!r}, the key's, is none that a job can have"
            remedy = "delete it (here, or with `etcron job delete`), and save the job under another name"
            raise InvalidInputError([Problem(field="name", message=message, remedy=remedy)])
        document = load_object(value)
        anchor_ms, saved_ms = document.pop("anchorMs", None), document.pop("savedMs", 0)
        saved_by = document.pop("savedBy", None)
        pause, again = _take_pause(document), _take_again(document)
        signature = Signature.read(document.pop(SIGNATURE, None))
        problems = [] if (newer := _take_newer(document)) is None else newer.drop_from(document)
        if not is_instant(anchor_ms):
            remedy = "save the job through a manager"
            problems.append(Problem(field="anchorMs", message="is missing or no mark", remedy=remedy))
        if document.get("name") != name:
            problems.append(Problem(field="name", message="is not the key's", remedy=f"save it as {name!r}"))
        if problems:
            raise InvalidInputError(problems)
        spec = parse_known(document, name=name, size=len(value))
        return cls(
            spec=spec, anchor_ms=anchor_ms,
            saved_ms=saved_ms if is_instant(saved_ms) else 0,
            saved_by=_words(saved_by),
            pause=None if spec.enabled else pause, again=again, signature=signature,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What the signature of a job is about: its value as it lies in etcd, unknown fields included."""

    spec: Mapping[str, Any]
    beside: str
    """The digest of what its save wrote beside it."""
    signature: Signature | None

    @classmethod
    def of(cls, value: bytes) -> Self:
        """InvalidInputError where the value is no JSON object."""
        return cls.parts_of(load_object(value))

    @classmethod
    def parts_of(cls, document: dict[str, Any]) -> Self:
        """Of a document that has been read."""
        beside = {name: value for name, value in document.items() if name in _BESIDE}
        spec = {name: value for name, value in document.items() if name not in _BESIDE and name != SIGNATURE}
        return cls(spec=spec, beside=digest(beside), signature=Signature.read(document.get(SIGNATURE)))

    def fault(self, trust: Trust, name: str) -> str | None:
        """Why it is not believed as the job of this name; None: a manager has signed it."""
        return trust.job_fault(name, self.signature, spec=self.spec, beside=self.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """Fields that this version does not know."""

    fields: tuple[str, ...]
    needed: tuple[str, ...]
    """Those that a reader must know."""
    version: str | None
    """Which wrote them, where it says so."""

    @property
    def words(self) -> str:
        """Which they are, and what helps."""
        fields = ", ".join(printable(name) for name in self.fields[:_NAMED])
        return f"etcron {self._writer} has saved it with {fields}, which this one ({VERSION}) does not know"

    def drop_from(self, document: dict[str, object]) -> list[Problem]:
        """What is wrong with a document that has them; the others are taken out of it."""
        for name in set(self.fields).difference(self.needed):
            del document[name]
        message = f"is not known to this version ({VERSION}), and has to be"
        remedy = f"use etcron {self._writer}, which has saved it, or a later one"
        return [Problem(field=printable(name), message=message, remedy=remedy) for name in self.needed[:_NAMED]]

    @property
    def _writer(self) -> str:
        return printable(self.version) if self.version else "of another version"


def newer_fields(value: bytes) -> Newer | None:
    """The fields of a saved job that this version does not know, where it says which of them have to be known."""
    try:
        return _take_newer(load_object(value))
    except InvalidInputError:
        return None


def _take_newer(document: dict[str, object]) -> Newer | None:
    needed, version = document.pop("mustKnow", None), document.pop("savedVersion", None)
    if not isinstance(needed, list):
        return None
    must = {name for name in needed if isinstance(name, str)}
    unknown = tuple(name for name in document if name not in KNOWN and name not in _OF_THE_SAVE)
    if not unknown:
        return None
    return Newer(
        fields=unknown, needed=tuple(name for name in unknown if name in must),
        version=version if isinstance(version, str) else None,
    )  # fmt: skip


def fields_for_older(document: Mapping[str, object], newer: Mapping[str, bool]) -> dict[str, object]:
    """What a job says of its fields to versions that do not know them all; nothing where each knows each."""
    if not any(name in document for name in newer):
        return {}
    needed = [name for name, is_needed in newer.items() if is_needed and name in document]
    return {"mustKnow": needed, "savedVersion": VERSION}


def planned_by(spec: JobSpec, again: Again | None, worker: str | None = None) -> Schedule:
    """The job's fires (of a broadcast job those on a worker), but for what was started before its time."""
    spans = () if again is None else again.started.get(worker or "", ())
    return LeavingOut(inner=spec.schedule, spans=spans) if spans else spec.schedule


def first_attempt(again: Again | None, plan_ms: int) -> int:
    """The number of the first attempt of a planned fire."""
    return again.attempt if again is not None and plan_ms <= again.until_ms else 1


def _take_pause(document: dict[str, object]) -> Pause | None:
    """What the document says of a pause, taken out of it; nonsense says nothing, and harms no other job."""
    since_ms, by = document.pop("pausedMs", None), document.pop("pausedBy", None)
    reason = document.pop("pausedReason", None)
    if not is_instant(since_ms):
        return None
    return Pause(since_ms=since_ms, by=_words(by), reason=_words(reason))


def _take_again(document: dict[str, Any]) -> Again | None:
    """As for a pause; but what cannot be read must not pass for nothing, or fires would be started twice."""
    value = document.pop("again", None)
    if value is None:
        return None
    try:
        until_ms, attempt = value["untilMs"], value["attempt"]
        started = {
            str(worker): tuple((instant(first), instant(last)) for first, last in spans)
            for worker, spans in value["started"].items()
        }
        if not is_instant(until_ms) or not isinstance(attempt, int) or attempt < 2:
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        problem = Problem(field="again", message="is not what an unblocking writes", remedy="save the job anew")
        raise InvalidInputError([problem]) from None
    return Again(until_ms=until_ms, attempt=attempt, started=started)


def _words(value: object) -> str | None:
    return words(value) if isinstance(value, str) else None
