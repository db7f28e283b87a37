"""``POST /api/v1/jobs/{name}/run``: a run beside the schedule; once, for each dedupe key and window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic_core import CoreSchema, core_schema

from common.access.audit_diff import brief
from common.access.rights import Role
from common.errors import Problem
from common.instants import first_ms
from common.jobs.job import ENV
from common.jobs.kinds import NOT_BLANK, AnyText, Kind, Number, Pattern, Schema, Several, about
from common.jobs.reading import shown, text, wrong
from manager.access.audited import annotate
from manager.access.guard import is_browser
from manager.access.needs import needs
from manager.http.bodies import Body, ReasonField
from manager.http.guards import ADDRESS
from manager.http.idempotency import IDEMPOTENCY, REPLAYED, RUN_CALL
from manager.parts import PARTS, answer, caller, rights
from manager.use_cases.run_now import DEFAULT_DEDUPE_S, Wanted

MAX_ARGUMENTS: Final = 100
MAX_BYTES: Final = 32_768
"""Of arguments and environment together: they go through etcd with the run."""
MAX_DEDUPE_KEY: Final = 200
MAX_DEDUPE_S: Final = 30 * 86_400
MAX_AHEAD_MS: Final = 366 * 86_400_000


@dataclass(frozen=True)
class Ahead(Kind):
    """An instant that is not too far ahead of now, which is the context of the reading."""

    type: str = "time"
    limits: str = "ISO 8601 with an offset; within the next 366 days"

    @property
    def core(self) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def _read(self, value: Any, info: core_schema.ValidationInfo[int]) -> int:
        needed = "a time with its offset, such as 2026-12-24T18:00:00+01:00; leave it out for now"
        given = text(value, needed)
        try:
            moment = datetime.fromisoformat(given)
            at_ms = first_ms(moment) if moment.tzinfo is not None and len(given) > len("2026-12-24") else None
        except (ValueError, OverflowError):
            at_ms = None
        if at_ms is None or at_ms < 0:  # before 1970 an answer could not even name it
            raise wrong(f"is {shown(given)}", f"needed: {needed}")
        if at_ms > info.context + MAX_AHEAD_MS:
            raise wrong(f"is {shown(given)}", "needed: a time within the next 366 days")
        return at_ms


_ARGUMENTS: Final = Several(of=AnyText(longest=MAX_BYTES), what="arguments", least=0, most=MAX_ARGUMENTS, alone=False)
_KEY: Final = Pattern(pattern=NOT_BLANK, form=f"a text of 1 to {MAX_DEDUPE_KEY} characters", longest=MAX_DEDUPE_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    args: Annotated[tuple[str, ...], _ARGUMENTS, about(
        "args", "arguments for the command", ["--full"])] = ()  # fmt: skip
    env: Annotated[Mapping[str, str] | None, ENV, about(
        "env", "variables for this run alone", {"LEVEL": "debug"})] = None  # fmt: skip
    at: Annotated[int | None, Ahead(), about("at", "then, not now", "2026-12-24T18:00:00+01:00")] = None
    dedupe_key: Annotated[str | None, _KEY, about(
        "dedupeKey", "the same key within its seconds gives the same run", "page-17")] = None  # fmt: skip
    dedupe_s: Annotated[int | None, Number(low=1, high=MAX_DEDUPE_S, whole=True), about(
        "dedupeSeconds", "how long the key counts; 300 when left out", 300)] = None  # fmt: skip
    reason: ReasonField = None


def _clashes(wish: _Wish) -> Iterator[Problem]:
    if wish.dedupe_s is not None and wish.dedupe_key is None:
        message, remedy = "is given without a dedupeKey", "give the key that counts for so long"
        yield Problem(field="dedupeSeconds", message=message, remedy=remedy)
    size = sum(len(one.encode()) for one in (*wish.args, *(wish.env or {}), *(wish.env or {}).values()))
    if size > MAX_BYTES:
        message = f"and env are {size:,} bytes together"
        yield Problem(field="args", message=message, remedy=f"at most {MAX_BYTES:,}: put it into a file")


BODY: Final = Body(_Wish, also=_clashes)


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_post(RUN_CALL, run_job)


@needs(Role.OPERATOR)
async def run_job(request: web.Request) -> web.Response:
    """Ask for a run: 202 with its id; 200 with the first one's, where that has been asked for under this key."""
    parts = request.app[PARTS]
    wish = await BODY.read(request, parts.read_timeout_s, context=parts.clock.wall_ms())
    wanted = Wanted(
        args=wish.args, env=wish.env or {}, at_ms=wish.at, dedupe_key=wish.dedupe_key,
        dedupe_s=wish.dedupe_s or DEFAULT_DEDUPE_S, reason=wish.reason, is_by_hand=is_browser(request),
    )  # fmt: skip
    env = sorted(wish.env)[:50] if wish.env else None
    annotate(request, args=brief(list(wish.args)) if wish.args else None, env=env, atMs=wish.at, reason=wish.reason)
    idempotency = request.get(IDEMPOTENCY)
    asked = await parts.run_now.ask(
        request.match_info["name"],
        wanted,
        by=caller(request),
        rights=rights(request),
        address=request[ADDRESS],
        idempotency=idempotency,
    )
    annotate(request, runId=asked.answer.get("runId"))
    headers = dict(asked.headers) | ({REPLAYED: "true"} if asked.is_replayed else {})
    return answer(asked.answer, status=asked.status, headers=headers)
