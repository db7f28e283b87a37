"""Reading what came with a request: form, JSON. Every mistake at once, each with its field and its remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from aiohttp import web

from common.errors import InvalidInputError, Problem
from common.jobs.job import EXAMPLE
from common.jobs.reader import load_object
from common.jobs.reading import shown
from common.protocol.edits import ANY_REVISION
from manager.http.errors import RequestError
from manager.http.guards import MAX_BODY_BYTES

_MAX_FORM_FIELDS = 100
_NAME_AT = "/api/v1/jobs/".count("/")


def job_in(request: web.Request) -> str:
    """The job's name in the path, byte for byte: what is no UTF-8 as Python's ``surrogateescape`` has it."""
    raw = request.rel_url.raw_path.split("/")[_NAME_AT]
    return unquote_to_bytes(raw).decode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Asks once more whether the caller may make the call."""

    look: Callable[[], Awaitable[None]]


LOOK_AGAIN: Final = web.RequestKey("look_again", LookAgain)


async def read_body(request: web.Request, seconds: float) -> bytes:
    """The whole body; 413 beyond 1 MiB, 408 where it does not arrive in time, 400 where it is cut off or garbled.

    Where it was waited for, the caller's rights are looked at again: they may have been taken away meanwhile.
    """
    is_there = request.content.is_eof()
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, request.content_length or 0)
    try:
        async with asyncio.timeout(seconds):
            body = await request.read()
    except TimeoutError as error:
        raise RequestError(408, f"the body did not arrive within {seconds:g} s; send it again") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        # The client's doing, or the network's: nothing for this manager's log. Who has gone does not read the answer.
        raise RequestError(400, "the body cannot be read: not all of it came, or not in its encoding") from error
    if not is_there and (again := request.get(LOOK_AGAIN)) is not None:
        await again.look()
    return body


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
