"""The audit's chain: each entry carries the hash of the one before, so that no change to what is kept goes unnoticed.

    entry 1 <- entry 2 <- entry 3 ... <- entry n        head: (n, its hash), kept elsewhere (etcd, the log)

The hash is the SHA-256 of the entry's text, which holds everything but the hash itself, the one before among it. So a
change, a removal in the middle, another order and an insertion break the chain; a removal at the end, and a chain that
was written anew as a whole, do not fit the head. A writer of both can forge both: this finds tampering, it does not
prevent it.

Pure: no clock, no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Self

START: Final = "0" * 64
"""What the first entry of a chain has in place of the hash before."""
MAX_SEQ: Final = 10**12 - 1
MAX_DETAILS: Final = 8_192
"""Bytes of an entry's details, as JSON."""
_LIMITS: Final = {"who": 300, "via": 20, "address": 60, "action": 60, "object": 400}
_MEMBERS: Final = ("chain", "seq", "ms", "who", "via", "address", "action", "object", "outcome", "details", "before")


class Outcome(StrEnum):
    """What became of a call."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    IN_DOUBT = "in doubt"
    """It may or may not have been carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What happened, not yet part of a chain."""

    ms: int
    who: str
    via: str
    address: str
    action: str
    """A stable word, e.g. ``job.save``."""
    object: str
    """What it was done to, e.g. ``job backup``; "" where that is not one thing."""
    outcome: Outcome
    details: Mapping[str, Any] = field(default_factory=dict)

    def bounded(self) -> Note:
        """The same, with texts cut where they are too long for an entry, and only of what JSON has in UTF-8."""
        texts = {name: _text(getattr(self, name), most) for name, most in _LIMITS.items()}
        details = json.loads(_spelled(self.details))
        if len(_spelled(details)) > MAX_DETAILS:
            details = {"cut": "too long to be kept", "members": [_text(name, 60) for name in list(details)[:50]]}
        return Note(ms=self.ms, outcome=self.outcome, details=details, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a chain."""

    chain: str
    seq: int
    """1 for the first, then without a gap."""
    note: Note
    before: str
    """The hash of the entry before."""

    @classmethod
    def after(cls, before: Head, note: Note) -> Self:
        """The next entry behind this one."""
        return cls(chain=before.chain, seq=before.seq + 1, note=note, before=before.hash)

    def to_document(self) -> dict[str, Any]:
        """Everything but its hash."""
        note = self.note
        return {
            "chain": self.chain, "seq": self.seq, "ms": note.ms, "who": note.who, "via": note.via,
            "address": note.address, "action": note.action, "object": note.object, "outcome": str(note.outcome),
            "details": dict(note.details), "before": self.before,
        }  # fmt: skip

    @property
    def text(self) -> str:
        """What is hashed, kept and compared: JSON of one spelling."""
        return _spelled(self.to_document())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read its text; ValueError where it is none, or spelled in another way."""
        try:
            document = json.loads(text)
            if not isinstance(document, dict) or set(document) != set(_MEMBERS):
                raise ValueError("its members are not those of an entry")
            numbers = (document["seq"], document["ms"])
            if not all(type(number) is int for number in numbers) or not 1 <= document["seq"] <= MAX_SEQ:
                raise ValueError("its numbers are none")
            if not all(isinstance(document[name], str) for name in ("chain", "before", *_LIMITS)):
                raise ValueError("a text in it is none")
            if not isinstance(document["details"], dict):
                raise ValueError("its details are none")
            note = Note(
                ms=document["ms"], outcome=Outcome(document["outcome"]), details=document["details"],
                **{name: document[name] for name in _LIMITS},
            )  # fmt: skip
            entry = cls(chain=document["chain"], seq=document["seq"], note=note, before=document["before"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"not an entry of the audit: {error!s:.200}") from error
        if entry.text != text:
            raise ValueError("not an entry of the audit: it is spelled in another way")
        return entry

    @property
    def hash(self) -> str:
        """Of its text, in hex."""
        return sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How far a chain goes."""

    chain: str
    seq: int = 0
    """Of its last entry; 0 while it has none."""
    hash: str = START
    delivered: int = 0
    """Up to which entry the log store has confirmed; what lies behind may still wait on the manager's disk."""
    ms: int = 0

    def to_json(self) -> bytes:
        """Its value in etcd; the chain stands in the key."""
        return _spelled({"seq": self.seq, "hash": self.hash, "delivered": self.delivered, "ms": self.ms}).encode()

    @classmethod
    def from_json(cls, value: bytes, *, chain: str) -> Self:
        """Read its value; ValueError where it is none."""
        try:
            document = json.loads(value)
            numbers = {name: document[name] for name in ("seq", "delivered", "ms")}
            if not all(type(number) is int and number >= 0 for number in numbers.values()):
                raise ValueError("its numbers are none")
            return cls(chain=chain, hash=str(document["hash"]), **numbers)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"not the head of an audit chain: {error!s:.200}") from error


@dataclass(slots=True, kw_only=True)
class Walk:
    """Goes along one chain as it is kept, and finds its first break; a caller may pause it between entries."""

    chain: str
    seq: int = 0
    hash: str = START
    problem: str | None = None
    """The first break; what lies behind it is not looked at."""

    def take(self, text: str, kept_hash: str, head: Head | None, *, fits: bool = True) -> None:
        """The next entry as it is kept, with the hash beside it, and whether all else beside it fits."""
        if self.problem is not None:
            return
        try:
            entry = Entry.parse(text)
        except ValueError as error:
            self.problem = f"entry {self.seq + 1} was changed: {error}"
            return
        if entry.chain != self.chain:
            self.problem = f"entry {self.seq + 1} was inserted: it is of the chain {entry.chain[:100]}"
        elif entry.seq > self.seq + 1:
            last = f" to {entry.seq - 1}" if entry.seq > self.seq + 2 else ""
            self.problem = f"entry {self.seq + 1}{last} is missing"
        elif entry.seq != self.seq + 1:
            self.problem = f"entry {entry.seq} stands behind entry {self.seq}: inserted, or in another order"
        elif entry.before != self.hash:
            self.problem = f"entry {entry.seq} does not follow from the one before: one of the two was changed"
        elif entry.hash != kept_hash:
            self.problem = f"entry {entry.seq} was changed: its text does not have its hash"
        elif not fits:
            self.problem = f"entry {entry.seq} was changed: what it is found by does not say what its text says"
        elif head is not None and entry.seq == head.seq and entry.hash != head.hash:
            self.problem = f"entry {entry.seq} is not the one that the head names: the chain was written anew"
        else:
            self.seq, self.hash = entry.seq, entry.hash

    def end(self, head: Head | None) -> None:
        """No entry follows."""
        if self.problem is not None:
            return
        if head is None:
            self.problem = "etcd has no head of it: whether its end is missing cannot be told"
        elif self.seq < head.delivered:
            self.problem = f"entries {self.seq + 1} to {head.delivered} are missing at the end"


def waiting(walk: Walk, head: Head | None) -> int:
    """How many entries the head knows of that are not in the log store yet."""
    return 0 if head is None else max(0, head.seq - max(walk.seq, head.delivered))


def _spelled(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)


def _text(value: object, most: int) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
