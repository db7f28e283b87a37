"""``POST /api/v1/jobs/{name}/run``: a run beside the schedule; once, for each dedupe key and window."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from aiohttp import web

from common.errors import Problem
from common.instants import first_ms
from common.jobs.fields import FIELDS
from common.jobs.kinds import AnyText, Number, Several
from common.jobs.reading import Faults, FieldError, Kind, given, shown, text
from manager.calls.callers import ADDRESS
from manager.calls.idempotency import IDEMPOTENCY, REPLAYED, RUN_CALL
from manager.calls.inputs import read_members, reason_in
from manager.parts import PARTS, answer, caller
from manager.runs.run_now import DEFAULT_DEDUPE_S, Wanted

MAX_ARGUMENTS: Final = 100
MAX_BYTES: Final = 32_768
"""Of arguments and environment together: they go through etcd with the run."""
MAX_DEDUPE_KEY: Final = 200
MAX_DEDUPE_S: Final = 30 * 86_400
MAX_AHEAD_MS: Final = 366 * 86_400_000

_MEMBERS: Final = ("args", "env", "at", "dedupeKey", "dedupeSeconds", "reason")
_ARGS: Final = Several(of=AnyText(longest=MAX_BYTES), what="arguments", least=0, most=MAX_ARGUMENTS, alone=False)
_ENV: Final[Kind] = next(field.kind for field in FIELDS if field.name == "env")
_DEDUPE_KEY: Final = AnyText(longest=MAX_DEDUPE_KEY)
_DEDUPE_S: Final = Number(low=1, high=MAX_DEDUPE_S, whole=True)


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_post(RUN_CALL, run_job)


async def run_job(request: web.Request) -> web.Response:
    """Ask for a run: 202 with its id; 200 with the first one's, where that has been asked for under this key."""
    parts = request.app[PARTS]
    document = await read_members(request, parts.read_timeout_s, known=_MEMBERS)
    wanted = read_wanted(document, now_ms=parts.clock.wall_ms())
    idempotency = request.get(IDEMPOTENCY)
    asked = await parts.run_now.ask(
        request.match_info["name"], wanted, by=caller(request), address=request[ADDRESS], idempotency=idempotency
    )
    headers = dict(asked.headers) | ({REPLAYED: "true"} if asked.is_replayed else {})
    return answer(asked.answer, status=asked.status, headers=headers)


def read_wanted(document: dict[str, Any], *, now_ms: int) -> Wanted:
    """The run in the body; InvalidInputError with every mistake at once."""
    said, faults = given(document), Faults()
    args = faults.take("args", _ARGS, said.get("args", []))
    env = faults.take("env", _ENV, said.get("env", {}))
    at_ms = faults.take("at", _moment(now_ms), said["at"]) if "at" in said else None
    dedupe_key = faults.take("dedupeKey", _dedupe_key, said["dedupeKey"]) if "dedupeKey" in said else None
    dedupe_s = faults.take("dedupeSeconds", _DEDUPE_S, said.get("dedupeSeconds", DEFAULT_DEDUPE_S))
    if "dedupeSeconds" in said and "dedupeKey" not in said:
        faults.add("dedupeSeconds", "is given without a dedupeKey", "give the key that counts for so long")
    problems: list[Problem] = []
    reason = reason_in(document, problems)
    faults.problems += problems
    size = sum(len(one.encode()) for one in (args or ())) + sum(len(f"{n}{v}".encode()) for n, v in (env or {}).items())
    if size > MAX_BYTES:
        faults.add("args", f"and env are {size:,} bytes together", f"at most {MAX_BYTES:,}: put it into a file")
    faults.check()
    assert args is not None, "what was read without a fault is there"
    assert dedupe_s is not None
    return Wanted(args=args, env=env, at_ms=at_ms, dedupe_key=dedupe_key, dedupe_s=dedupe_s, reason=reason)


def _dedupe_key(value: Any) -> str:
    return str(_DEDUPE_KEY(text(value, f"a text of 1 to {MAX_DEDUPE_KEY} characters")))


def _moment(now_ms: int) -> Any:
    """The kind of an instant that is not too far ahead."""
    needed = "needed: a time with its offset, such as 2026-12-24T18:00:00+01:00; leave it out for now"

    def read(value: Any) -> int:
        told = text(value, needed.removeprefix("needed: "))
        try:
            moment = datetime.fromisoformat(told)
            at_ms = first_ms(moment) if moment.tzinfo is not None and len(told) > len("2026-12-24") else None
        except (ValueError, OverflowError):
            at_ms = None
        if at_ms is None or at_ms < 0:  # before 1970 an answer could not even name it
            raise FieldError(f"is {shown(told)}", needed)
        if at_ms > now_ms + MAX_AHEAD_MS:
            raise FieldError(f"is {shown(told)}", "needed: a time within the next 366 days")
        return at_ms

    return read
