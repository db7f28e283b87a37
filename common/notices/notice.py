"""A notice: what is to be sent on one channel, as it lies in the log store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from common.notices.events import Event
from common.verdicts import EventKind

MOST_TOLD: Final = 10
"""Events that a notice has whole; of the others it has counts."""
MOST_GROUPS: Final = 50


class NoticeKind(StrEnum):
    """Why it is sent."""

    PROBLEM = "problem"
    RECOVERED = "recovered"
    REPEAT = "repeat"
    FLAPPING = "flapping"
    DIGEST = "digest"
    TEST = "test"
    SYSTEM = "system"


class NoticeState(StrEnum):
    """How far it is."""

    WAITING = "waiting"
    SENDING = "sending"
    """It is part of a message that is on its way."""
    SENT = "sent"
    FAILED = "failed"
    """For good: it can be sent again by hand."""


class AlertedEvent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An event, with what its alert knows."""

    event: Event
    since_ms: int | None = None
    """When the problem began."""
    last_ok_ms: int | None = None
    """When the job last succeeded."""
    in_a_row: int = 1
    """Problems since then, this one included."""
    is_flapping: bool = False
    """It fails and recovers, again and again."""


class Group(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How many events of a kind, on one worker."""

    kind: EventKind
    count: int
    worker: str | None = None


class Notice(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One notice. The notifier makes it, senders see to its state."""

    id: str
    channel: str
    kind: NoticeKind
    created_ms: int
    told: tuple[AlertedEvent, ...] = ()
    """The first ``MOST_TOLD``."""
    groups: tuple[Group, ...] = ()
    """All events, counted; empty where ``told`` has them all."""
    by: str = ""
    """Of a test: who asked for it."""
    state: NoticeState = NoticeState.WAITING
    message: str = ""
    """The id of the message that it went into."""
    error: str = ""
    """What the server answered, where not all went well."""
    sent_ms: int | None = None
    tries: int = 0
    """How often its message was put off."""
    due_ms: int | None = None
    """When that is tried again."""
    resends: int = 0
    """How often it was sent again by hand."""

    @property
    def total(self) -> int:
        """How many events it tells; none, where it is a test."""
        return sum(group.count for group in self.groups) or len(self.told)

    def to_document(self) -> dict[str, Any]:
        """As JSON has it; what is absent is left out."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document | {"state": str(self.state)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """ValueError where it is none."""
        try:
            return msgspec.convert(dict(document), cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"not a notice: {error}") from None


def notice_id(cause: str, channel: str) -> str:
    """The same for the same cause and channel, so that what is done twice makes one notice."""
    return hashlib.sha256(f"{channel}\0{cause}".encode(errors="surrogatepass")).hexdigest()[:32]


def trial_notice(channel: str, *, by: str, now_ms: int) -> Notice:
    """What *send a test* puts: it goes the way of all others."""
    cause = f"test/{by}/{now_ms}"
    return Notice(id=notice_id(cause, channel), channel=channel, kind=NoticeKind.TEST, created_ms=now_ms, by=by)
