"""What calls take in their bodies: dataclasses whose fields pydantic reads, as it does those of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

from aiohttp import web

from common.errors import Problem
from common.jobs.kinds import Kind, Schema, Truth, about, members_of, object_schema, read_members, reader_of
from common.jobs.reading import check, check_unicode, shown, wrong
from manager.http.inputs import read_object

T = TypeVar("T")

MAX_REASON: Final = 500
BODY_READ: Final = web.RequestKey("body read", dict[str, Any])
"""What a call's body holds, once it was found good."""


class Body(Generic[T]):
    """The body of a call, as JSON and as JSON Schema."""

    def __init__(self, of: type[T], *, also: Callable[[T], Iterable[Problem]] = lambda _: ()) -> None:
        """`also`: what is wrong with what was made as a whole."""
        self._read, self._also = reader_of(of), also
        self.members = members_of(of)
        self.schema: Schema = object_schema(of)

    async def read(self, request: web.Request, seconds: float, *, context: Any = None) -> T:
        """What the body says; InvalidInputError with every mistake at once, RequestError where it does not arrive."""
        document = await read_object(request, seconds, members=self.members)
        made, problems = read_members(
            document, lambda said: self._read(said, context=context), self.members, of="this call's body"
        )
        check(problems if made is None else [*problems, *self._also(made)])
        assert made is not None, "what was read without a fault is there"
        request[BODY_READ] = document
        return made


@dataclass(frozen=True)
class Words(Kind):
    """Why a user does something, stripped; None where it says nothing."""

    is_needed: bool = False
    type: str = "text"
    limits: str = f"up to {MAX_REASON} characters"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "maxLength": MAX_REASON}

    def read(self, value: Any) -> str | None:
        if value is not None and (not isinstance(value, str) or len(value) > MAX_REASON):
            or_none = "" if self.is_needed else ", or leave it out"
            raise wrong(f"is {shown(value)}", f"a text of at most {MAX_REASON} characters{or_none}")
        check_unicode(value or "")
        reason = (value or "").strip() or None
        if self.is_needed and reason is None:
            raise wrong("is missing", "say why: its record has it")
        return reason


ReasonField = Annotated[str | None, Words(), about("reason", "why; it is recorded", "the disk is being replaced")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reason:
    reason: ReasonField = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NeededReason:
    reason: Annotated[str, Words(is_needed=True), about("reason", "why; the record has it", "host-3 burnt")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReasonAndForce:
    reason: ReasonField = None
    force: Annotated[bool, Truth(), about("force", "though NTP does not keep the manager's clock", True)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nothing:
    pass


NOTHING: Final = Body(_Nothing)
REASON: Final = Body(_Reason)
NEEDED_REASON: Final = Body(_NeededReason)
REASON_AND_FORCE: Final = Body(_ReasonAndForce)
