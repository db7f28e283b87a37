"""The calls that the audit has, the action of each, and the middleware that notes them.

Every call that changes something is noted with its outcome, every call that is refused is counted, and of those that
only read the ones in the table. A call that the table does not know is noted all the same, by its method and path; a
test demands an action. What only a handler knows (the object, what has changed, the reason) it adds by `annotate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from common.access.audit_chain import Note, Outcome
from common.access.audit_diff import changes_of
from common.access.callers import Via
from common.errors import EtcronError, ForbiddenError, InvalidInputError, LoginNeededError
from common.etcd.settle import UnsettledError, is_in_doubt
from common.jobs.job import JobSpec
from manager.access.audit import Audit
from manager.access.guard import CALLER
from manager.http.bodies import BODY_READ
from manager.http.errors import Handler, RequestError
from manager.http.guards import ADDRESS, UNKNOWN
from manager.http.idempotency import READS, REPLAYED

_API: Final = "/api/v1"
LOGINS: Final = {"password": "login", "link": "login.link", "oidc": "login.oidc"}
"""The action of each way to log in."""
ACTIONS: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("POST", "/job/save"): ("job.save", "job"),
    ("POST", "/job/delete"): ("job.delete", "job"),
    ("POST", "/job/kill"): ("job.kill", "job"),
    ("POST", f"{_API}/jobs/bulk"): ("job.bulk", ""),
    ("POST", f"{_API}/crontab"): ("job.save", ""),
    ("PUT", f"{_API}/jobs/{{name}}"): ("job.save", "job"),
    ("PATCH", f"{_API}/jobs/{{name}}"): ("job.save", "job"),
    ("DELETE", f"{_API}/jobs/{{name}}"): ("job.delete", "job"),
    ("POST", f"{_API}/jobs/{{name}}/pause"): ("job.pause", "job"),
    ("POST", f"{_API}/jobs/{{name}}/resume"): ("job.resume", "job"),
    ("POST", f"{_API}/jobs/{{name}}/unblock"): ("job.unblock", "job"),
    ("POST", f"{_API}/jobs/{{name}}/kill"): ("job.kill", "job"),
    ("POST", f"{_API}/jobs/{{name}}/run"): ("job.run", "job"),
    ("POST", f"{_API}/jobs/{{name}}/versions/{{revision}}/restore"): ("job.restore", "job"),
    ("POST", f"{_API}/runs/{{id}}/kill"): ("run.kill", "run"),
    ("POST", f"{_API}/runs/{{id}}/give-up"): ("run.give-up", "run"),
    ("POST", f"{_API}/workers/{{name}}/drain"): ("worker.drain", "worker"),
    ("POST", f"{_API}/workers/{{name}}/undrain"): ("worker.undrain", "worker"),
    ("DELETE", f"{_API}/workers/{{name}}"): ("worker.forget", "worker"),
    ("POST", f"{_API}/login"): (LOGINS["password"], ""),
    ("POST", f"{_API}/login/link"): (LOGINS["link"], ""),
    ("GET", f"{_API}/login/oidc/callback"): (LOGINS["oidc"], ""),
    ("POST", f"{_API}/logout"): ("logout", ""),
    ("POST", f"{_API}/password"): ("password.change", ""),
    ("DELETE", f"{_API}/sessions/{{id}}"): ("session.delete", "session"),
    ("POST", f"{_API}/tokens"): ("token.create", "token"),
    ("DELETE", f"{_API}/tokens/{{id}}"): ("token.delete", "token"),
    ("POST", f"{_API}/users"): ("user.create", "user"),
    ("PATCH", f"{_API}/users/{{name}}"): ("user.change", "user"),
    ("DELETE", f"{_API}/users/{{name}}"): ("user.delete", "user"),
    ("POST", f"{_API}/services"): ("service.create", "service"),
    ("PATCH", f"{_API}/services/{{name}}"): ("service.change", "service"),
    ("DELETE", f"{_API}/services/{{name}}"): ("service.delete", "service"),
    ("POST", f"{_API}/bindings"): ("binding.create", "binding"),
    ("DELETE", f"{_API}/bindings/{{id}}"): ("binding.delete", "binding"),
    ("POST", f"{_API}/channels"): ("channel.create", "channel"),
    ("PUT", f"{_API}/channels/{{name}}"): ("channel.save", "channel"),
    ("DELETE", f"{_API}/channels/{{name}}"): ("channel.delete", "channel"),
    ("POST", f"{_API}/channels/{{name}}/test"): ("channel.test", ""),
    ("POST", f"{_API}/rules"): ("rule.create", "rule"),
    ("PUT", f"{_API}/rules/{{name}}"): ("rule.save", "rule"),
    ("DELETE", f"{_API}/rules/{{name}}"): ("rule.delete", "rule"),
    ("POST", f"{_API}/silences"): ("silence.create", "silence"),
    ("DELETE", f"{_API}/silences/{{id}}"): ("silence.end", "silence"),
    ("POST", f"{_API}/alerts/ack"): ("alert.acknowledge", ""),
    ("POST", f"{_API}/notices/{{id}}/resend"): ("notice.resend", "notice"),
    ("GET", f"{_API}/audit"): ("audit.read", ""),
    ("GET", f"{_API}/audit/verify"): ("audit.verify", ""),
}
"""By method and path: the action, and what kind of thing the path names."""
DOWNLOAD: Final = ("GET", f"{_API}/runs/{{id}}/output")
"""Noted where it takes the output as a file (``download=1``); to look at one is not."""
_FROM_BODIES: Final = frozenset({"user", "service", "binding", "token", "channel", "rule", "silence"})
"""Of calls on these the audit has what was asked for, too."""
_BODY_MEMBERS: Final = (
    "name", "subject", "owner", "groups", "disabled", "role", "labels", "runAs", "workers", "days", "description",
    "kind", "to", "job", "system", "on", "after", "required", "jobs", "hours",
)  # fmt: skip
"""And no other member of a body: an unknown one may be a secret."""
_NEVER_WAITS: Final = frozenset({"job.kill", "run.kill"})
_NAMES: Final = ("name", "id")
_LONGEST_WHY: Final = 300


@dataclass(slots=True, kw_only=True)
class Annotations:
    """What a handler adds to the entry of its call."""

    who: str | None = None
    object: str | None = None
    action: str | None = None
    outcome: Outcome | None = None
    details: dict[str, Any] = field(default_factory=dict)
    put_part: Callable[[str, str, Outcome, Mapping[str, Any]], None]
    """Action, object, outcome, details of one thing that a call on many has done: each has an entry, and the call none.
    """
    has_parts: bool = False


AUDIT: Final = web.RequestKey("audit", Annotations)


def annotate(
    request: web.Request, *, who: str | None = None, object: str | None = None, action: str | None = None,  # noqa: A002
    outcome: Outcome | None = None, **details: Any,
) -> None:  # fmt: skip
    """Adds to the audit's entry of this call what its path does not have; None leaves a field as it is.

    ``who``: of a login, the user. ``details``: never a secret; see `common.access.audit_diff`.
    """
    added = request.get(AUDIT)
    if added is None:
        return
    added.who, added.object = who or added.who, object or added.object
    added.action, added.outcome = action or added.action, outcome or added.outcome
    added.details |= {name: value for name, value in details.items() if value is not None}


def annotate_change(request: web.Request, before: JobSpec | None, after: JobSpec | None, **details: Any) -> None:
    """What a save or a deletion has made of a job; values of ``env`` are masked."""
    annotate(request, changes=job_changes(before, after), **details)


def job_changes(before: JobSpec | None, after: JobSpec | None) -> dict[str, Any]:
    """As the audit has it; values of ``env`` are masked."""
    return changes_of(*(None if spec is None else spec.to_stored() for spec in (before, after)))


def note_part(request: web.Request, action: str, object: str, outcome: Outcome, **details: Any) -> None:  # noqa: A002
    """One of the things that a call on many has done, once it is done: all of them at the end would be a flood."""
    if (added := request.get(AUDIT)) is not None:
        added.has_parts = True
        added.put_part(action, object, outcome, {name: one for name, one in details.items() if one is not None})


def audited(audit_of: Callable[[web.Request], Audit], now_ms: Callable[[web.Request], int]) -> Middleware:
    """The middleware; everything that may refuse a call stands behind it."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        audit = audit_of(request)

        def put_part(action: str, object_: str, outcome: Outcome, details: Mapping[str, Any]) -> None:
            _put(audit, _by(request, now_ms(request), action, object_, outcome, details))

        added = request[AUDIT] = Annotations(put_part=put_part)
        try:
            response = await handler(request)
        except BaseException as error:
            outcome, details = _of_error(error)
            _note(audit, request, added, outcome, details, now_ms(request))
            raise
        outcome = _of_status(response.status)
        details = {"status": response.status} if outcome is not Outcome.DONE else {}
        if REPLAYED in response.headers:
            details["replayed"] = True
        _note(audit, request, added, outcome, details, now_ms(request))
        if _is_change(request) and outcome is Outcome.DONE and _call_of(request)[0] not in _NEVER_WAITS:
            await audit.settled()
        return response

    return middleware


def _note(
    audit: Audit, request: web.Request, added: Annotations, outcome: Outcome, details: dict[str, Any], now_ms: int
) -> None:  # fmt: skip
    action, kind = _call_of(request)
    outcome = added.outcome or outcome
    if not action and outcome is not Outcome.REFUSED:
        return
    asked = request.get(BODY_READ, {}) if kind in _FROM_BODIES else {}
    details |= {name: asked[name] for name in _BODY_MEMBERS if asked.get(name) is not None}
    named = next((request.match_info[name] for name in _NAMES if name in request.match_info), "")
    named = named or str(asked.get("name") or asked.get("subject") or "")
    of = added.object or (f"{kind} {named}" if kind and named else "" if action else _route(request))
    note = _by(request, now_ms, added.action or action or "read", of, outcome, {**details, **added.details})
    if added.who:
        note = replace(note, who=added.who)
    if action in LOGINS.values():
        audit.logins[action, outcome] += 1
    elif outcome is Outcome.REFUSED:
        audit.refused[note.via] += 1
    if not added.has_parts:
        _put(audit, note, is_further_page=action.startswith("audit.") and bool(request.query.get("cursor")))


def _by(
    request: web.Request, ms: int, action: str, of: str, outcome: Outcome, details: Mapping[str, Any]
) -> Note:  # fmt: skip
    caller, address = request.get(CALLER), request.get(ADDRESS, UNKNOWN)
    via = Via.NOBODY if caller is None or caller.identity is None else caller.identity.via
    who = f"api {address}" if caller is None else caller.name
    return Note(
        ms=ms, who=who, via=str(via), address=address, action=action, object=of, outcome=outcome, details=details
    )


def _put(audit: Audit, note: Note, *, is_further_page: bool = False) -> None:
    """An entry at once, or, of a call without effect or of a list's next page, counted by the minute with others of
    its kind.
    """
    is_done = note.outcome in (Outcome.DONE, Outcome.IN_DOUBT) and note.details.get("changed") is not False
    if is_done and not is_further_page:
        audit.note(note)
    else:
        audit.failed(note)


def _call_of(request: web.Request) -> tuple[str, str]:
    """The action and the kind of thing; "" where the call is not noted unless it is refused."""
    route = request.match_info.route.resource
    if route is None:
        return "", ""
    call = (request.method, route.canonical)
    if call == DOWNLOAD and request.query.get("download", "").lstrip("0") == "1":
        return "run.download", "run"
    if call in ACTIONS:
        return ACTIONS[call]
    return (" ".join(call), "") if _is_change(request) and route.canonical not in READS else ("", "")


def _is_change(request: web.Request) -> bool:
    return request.method not in {"GET", "HEAD", "OPTIONS"}


def _route(request: web.Request) -> str:
    route = request.match_info.route.resource
    return f"{request.method} {request.path[:200] if route is None else route.canonical}"


def _of_status(status: int) -> Outcome:
    if status in (401, 403):
        return Outcome.REFUSED
    return Outcome.DONE if status < 400 else Outcome.FAILED


def outcome_of(error: BaseException) -> Outcome:
    """What an error makes of a call."""
    return _of_error(error)[0]


def _of_error(error: BaseException) -> tuple[Outcome, dict[str, Any]]:
    match error:
        case LoginNeededError() | ForbiddenError():
            return Outcome.REFUSED, {"why": str(error)[:_LONGEST_WHY]}
        case UnsettledError() | RequestError(code="timeout"):
            return Outcome.IN_DOUBT, {"why": str(error)[:_LONGEST_WHY]}
        case EtcronError() if is_in_doubt(error):
            return Outcome.IN_DOUBT, {"why": str(error)[:_LONGEST_WHY]}
        case InvalidInputError():  # not its words: they may quote what was sent
            return Outcome.FAILED, {"fields": [problem.field[:80] for problem in error.problems[:20]]}
        case RequestError():
            return _of_status(error.status), {"why": str(error)[:_LONGEST_WHY], "status": error.status}
        case web.HTTPException():
            return _of_status(error.status), {"status": error.status} if error.status >= 400 else {}
        case EtcronError():
            return Outcome.FAILED, {"why": str(error)[:_LONGEST_WHY]}
        case _:
            return Outcome.IN_DOUBT, {"why": type(error).__name__}
