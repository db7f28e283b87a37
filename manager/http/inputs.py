"""Reading what came with a request: query, form, JSON. Every mistake at once, each with its field and its remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from aiohttp import web

from common.errors import InvalidInputError, Problem, nearest
from common.instants import to_ms
from common.jobs.job import EXAMPLE
from common.jobs.reader import load_object
from common.jobs.reading import shown
from common.protocol.edits import ANY_REVISION
from manager.http.errors import RequestError
from manager.http.guards import MAX_BODY_BYTES

E = TypeVar("E", bound=StrEnum)

_MAX_FORM_FIELDS = 100
_NAME_AT = "/api/v1/jobs/".count("/")
_MAX_MS = 8_000_000_000_000
"""Beyond the year 2199."""


class Fields:
    """Takes named texts apart (those of a query), gathering what was wrong with them; `check` raises it."""

    def __init__(self, texts: Mapping[str, str], *, known: Collection[str] | None = None) -> None:
        """`known` None: other names are let be (browsers and proxies add some)."""
        self._texts = texts
        self.problems: list[Problem] = []
        for name in texts:
            if known is not None and name not in known:
                meant = nearest(name, known)
                names = f"known: {', '.join(sorted(known))}" if known else "it has none: leave it out"
                remedy = f"did you mean {meant}?" if meant else names
                self.fault(name[:80], "is not a parameter of this call", remedy)

    def fault(self, field: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(field=field, message=message, remedy=remedy))

    def check(self) -> None:
        """InvalidInputError with every mistake so far, if there is any."""
        if self.problems:
            raise InvalidInputError(self.problems)

    def text(self, name: str) -> str | None:
        """The text as given; None where it is absent, empty or (a fault) no Unicode."""
        text = self._texts.get(name) or ""
        if not _is_unicode(text):
            self.fault(name, "is not valid Unicode", "percent-encode UTF-8")
            return None
        return text or None

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        text = self._texts.get(name)
        if text is None:
            return default
        if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 and low <= int(text) <= high:
            return int(text)
        self.fault(name, f"is {shown(text)}", f"a whole number from {low:,} to {high:,}; {default:,} when left out")
        return default

    def choice(self, name: str, kind: type[E]) -> E | None:
        text = self.text(name)
        try:
            return None if text is None else kind(text)
        except ValueError:
            self.fault(name, f"is {shown(text)}", f"one of: {', '.join(kind)}")
            return None

    def time_ms(self, name: str) -> int | None:
        """An instant: ISO 8601 with an offset, or milliseconds since the epoch."""
        text = self.text(name)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _MAX_MS:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                return to_ms(moment)
        except (ValueError, OverflowError):
            pass
        remedy = "a time with its offset such as 2026-03-29T01:00:00Z (write + as %2B), or milliseconds since 1970"
        self.fault(name, f"is {shown(text)}", remedy)
        return None


def job_in(request: web.Request) -> str:
    """The job's name in the path, byte for byte: what is no UTF-8 as Python's ``surrogateescape`` has it."""
    raw = request.rel_url.raw_path.split("/")[_NAME_AT]
    return unquote_to_bytes(raw).decode(errors="surrogateescape")


async def read_body(request: web.Request, seconds: float) -> bytes:
    """The whole body; 413 beyond 1 MiB, 408 where it does not arrive in time, 400 where it is cut off or garbled."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, request.content_length or 0)
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError as error:
        raise RequestError(408, f"the body did not arrive within {seconds:g} s; send it again") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        # The client's doing, or the network's: nothing for this manager's log. Who has gone does not read the answer.
        raise RequestError(400, "the body cannot be read: not all of it came, or not in its encoding") from error


async def read_form(request: web.Request, seconds: float) -> dict[str, str]:
    """The fields of a form, as clients of the legacy API send it (``application/x-www-form-urlencoded``)."""
    if request.content_type != "application/x-www-form-urlencoded":
        given = request.headers.get("Content-Type", "no Content-Type")
        raise RequestError(415, f"Content-Type: is {shown(given)}; send application/x-www-form-urlencoded")
    body = await read_body(request, seconds)
    try:
        # Not only ASCII: `curl -d` sends UTF-8 as it is.
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS)
    except ValueError as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeError) else f"it has more than {_MAX_FORM_FIELDS} fields"
        raise _invalid("form", f"cannot be read ({why})", "send a few fields name=value, percent-encoded") from error
    return dict(reversed(pairs))  # the first of equal names counts


def form_job(form: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object in the form field ``job``."""
    if "job" not in form:
        example = 'job={"name":"hello","command":"echo hello","cronExpr":"0 * * * * * *"}'
        raise _invalid("job", "is missing", f"send the form field {example}")
    try:
        return load_object(form["job"])
    except InvalidInputError as error:
        others = sorted(set(form) - {"job"})
        if not others:
            raise
        hint = Problem(
            field="job",
            message=f"is followed by the form field {shown(others[0])}",
            remedy="if that is a part of the job: write & as %26, or let curl do it with --data-urlencode",
        )
        raise InvalidInputError([*error.problems, hint]) from error


def form_name(form: Mapping[str, str]) -> str:
    """The form field ``name``."""
    if not form.get("name"):
        raise _invalid("name", "is missing", "send the form field name=<the job's name>")
    return form["name"]


async def read_object(
    request: web.Request, seconds: float, *, members: Collection[str] | None = None
) -> dict[str, Any]:
    """The JSON object in the body; ``members``: what may stand in it, where that is no job.

    Only jobs are limited to 64 KiB: what else may be long has a limit of its own, within that of all bodies.
    """
    if request.content_type != "application/json":
        given = request.headers.get("Content-Type", "no Content-Type")
        raise RequestError(415, f"Content-Type: is {shown(given)}; send application/json")
    example = EXAMPLE if members is None else f"{{}}, with {', '.join(sorted(members))} as needed"
    return load_object(await read_body(request, seconds), field_name="body", example=example, is_job=members is None)


async def read_spec(request: web.Request, seconds: float, *, name: str) -> dict[str, Any]:
    """The job in the body, under the path's name; one that names itself otherwise is refused."""
    document = await read_object(request, seconds)
    if document.setdefault("name", name) != name:
        raise _invalid("name", f"is {shown(document['name'])}", f"it must be the path's, {name!r}, or be left out")
    return document


def if_match(request: web.Request) -> int | None:
    """The revision that ``If-Match`` names, ANY_REVISION for ``*``; 0 for ``If-None-Match: *``; None for neither."""
    text, none = request.headers.get("If-Match"), request.headers.get("If-None-Match")
    if none is not None and (none.strip() != "*" or text is not None):
        raise _invalid("If-None-Match", f"is {shown(none)}", "send * for a job that must not exist, without If-Match")
    if text is None:
        return None if none is None else 0
    if text.strip() == "*":
        return ANY_REVISION
    digits = text.strip().removeprefix('"').removesuffix('"')
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise _invalid(
            "If-Match",
            f"is {shown(text)}",
            'the ETag of the job, e.g. "1234"; * for any; "0" where there must be none',
        )
    return int(digits)


def _invalid(field: str, message: str, remedy: str) -> InvalidInputError:
    return InvalidInputError([Problem(field=field, message=message, remedy=remedy)])


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
