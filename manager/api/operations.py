"""The calls of ``/api/v1``: one entry a method and path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from manager.api import (
    alerts,
    audit,
    bindings,
    bulk,
    channels,
    crontab,
    explain,
    forecast,
    jobs,
    login,
    login_oidc,
    notice_bodies,
    notices,
    output,
    rules,
    run_now,
    runs,
    services,
    silences,
    statistics,
    timeline,
    tokens,
    users,
    versions,
)
from manager.api import schemas as given
from manager.api.schemas import COUNT, MS, TEXT, TRUTH, Schema, array, maybe, page, record, ref
from manager.http.bodies import NEEDED_REASON, NOTHING, REASON, REASON_AND_FORCE

_JOBS = "/api/v1/jobs"
_JOB = "/api/v1/jobs/{name}"
_RUN = "/api/v1/runs/{id}"
_USER = "/api/v1/users/{name}"
_WORKER = "/api/v1/workers/{name}"
_CHANNELS = "/api/v1/channels"
_RULES = "/api/v1/rules"
_NOTICES = "/api/v1/notices"
_FORECAST = "/api/v1/forecast"
_ETAG: Final = {"ETag": {"description": "The job's revision.", "schema": TEXT}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call."""

    method: str
    path: str
    tag: str
    summary: str
    answers: Mapping[int, Schema | None]
    """The schema of the JSON that comes with each status of success; None: no JSON."""
    parameters: Sequence[Schema] = ()
    takes: Schema | None = None
    """The JSON body."""
    headers: Mapping[str, Any] = field(default_factory=dict)
    refuses: Sequence[int] = ()
    """Beside what any call may refuse."""
    media_type: str = "application/json"
    also: Sequence[str] = ()
    """Other types that it may answer with."""


_OUTCOME: Final[Schema] = {"type": "string", "enum": ["killed", "finished", "pending"]}
_GIVEN_UP: Final[Schema] = {"type": "string", "enum": ["lost", "finished", "pending"]}
_REMOVED: Final = record({"name": TEXT, "sessions": COUNT, "tokens": COUNT, "bindings": COUNT, "message": TEXT})
_LOGGED_IN: Final = record({"caller": ref("Whoami"), "csrf": TEXT})
_COOKIE: Final = {"Set-Cookie": {"description": "The session.", "schema": TEXT}}
_SAVED_CHANNEL: Final = record({"channel": ref("Channel"), "warnings": array(TEXT)})
_SAVED_RULE: Final = record({"rule": ref("Rule"), "warnings": array(TEXT)})
_ACCEPTED: Final = record({"runId": TEXT, "deduplicated": TRUTH})

_CROWDED: Final = {"slots": COUNT, "fires": COUNT, "waitMs": maybe(COUNT)}
_PEAK: Final = record({"time": MS, **_CROWDED, "mostFires": COUNT})

OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="get", path=_JOBS, tag="jobs", summary="A page of jobs, by name or as `sort` says.",
        parameters=jobs.ListQuery.parameters(),
        answers={200: page(ref("JobRow"), total={"type": "integer"}, warnings=array(TEXT))},
    ),
    Operation(
        method="post", path=f"{_JOBS}/check", tag="jobs",
        summary="What a save of this job would say; nothing is stored.", takes=ref("Job"),
        answers={200: record({"errors": array(ref("FieldError")), "warnings": array(TEXT), "skips": array(TEXT)})},
    ),
    Operation(
        method="post", path=f"{_JOBS}/bulk", tag="jobs", summary="One action on many jobs; each has its own result.",
        takes=bulk.BODY.schema,
        answers={200: record({
            "results": array(record({"name": TEXT, "ok": TRUTH, "message": TEXT}, {"changed": TRUTH}))
        })},
    ),
    Operation(
        method="post", path="/api/v1/crontab/preview", tag="jobs", takes=crontab.BODY.schema,
        summary="What each line of a crontab becomes, or why it is refused; nothing is stored.",
        answers={200: record({
            "items": array(record(
                {"line": COUNT, "text": TEXT, "became": TEXT},
                {
                    "problem": TEXT, "errors": array(ref("FieldError")), "notes": array(TEXT), "name": TEXT,
                    "isThere": TRUTH, "words": TEXT, "user": maybe(TEXT), "next": maybe(ref("Fire")),
                    "spec": ref("Job"),
                },
            )),
            "new": COUNT, "refused": COUNT, "warnings": array(TEXT),
        })},
    ),
    Operation(
        method="post", path="/api/v1/crontab", tag="jobs", takes=crontab.BODY.schema,
        summary="Save the new jobs that a crontab's lines become; each has its own result.",
        answers={200: record({
            "results": array(record({"name": TEXT, "ok": TRUTH, "message": TEXT}, {"changed": TRUTH}))
        })},
    ),
    Operation(
        method="get", path=_JOB, tag="jobs", summary="One job.", parameters=(given.JOB,), headers=_ETAG,
        answers={200: ref("JobRow")}, refuses=(404,),
    ),
    Operation(
        method="put", path=_JOB, tag="jobs", summary="Make the job, or replace it.",
        parameters=(given.JOB, given.IF_MATCH, given.IF_NONE_MATCH), takes=ref("Job"), headers=_ETAG,
        answers={200: ref("Saved"), 201: ref("Saved")}, refuses=(409, 412),
    ),
    Operation(
        method="patch", path=_JOB, tag="jobs", summary="Change the named fields (JSON merge patch; null: the default).",
        parameters=(given.JOB, given.IF_MATCH), takes={"type": "object"}, headers=_ETAG,
        answers={200: ref("Saved")}, refuses=(404, 409, 412),
    ),
    Operation(
        method="delete", path=_JOB, tag="jobs", summary="Delete the job; what runs goes on.",
        parameters=(given.JOB, given.IF_MATCH), refuses=(412,),
        answers={200: record({"before": maybe(ref("Job")), "deleted": TRUTH, "warnings": array(TEXT)})},
    ),
    *(
        Operation(
            method="post", path=f"{_JOB}/{verb}", tag="jobs", summary=summary, parameters=(given.JOB,),
            takes=(REASON_AND_FORCE if verb == "unblock" else REASON).schema, refuses=(404, 409),
            answers={200: record({"job": maybe(ref("JobRow")), "changed": TRUTH, "warnings": array(TEXT)})},
        )
        for verb, summary in (
            ("pause", "No fires until it is resumed; what runs goes on."),
            ("resume", "Fires again, from now on; an `at` within its grace at once, else nothing is made up for."),
            ("unblock", "Sets a mark that a wrong clock has put ahead back to now; 409: none is."),
        )
    ),
    Operation(
        method="post", path=f"{_JOB}/kill", tag="jobs", summary="End every run of the job that has begun.",
        parameters=(given.JOB,), takes=REASON.schema,
        answers={200: record({"killed": array(TEXT), "message": TEXT})},
    ),
    Operation(
        method="post", path=f"{_JOB}/run", tag="jobs", summary="Run the job now, or at a later time.",
        parameters=(given.JOB,), takes=run_now.BODY.schema, refuses=(404, 409),
        answers={200: _ACCEPTED, 202: _ACCEPTED},
        headers={"Location": {"description": "Where the run's life can be read.", "schema": TEXT}},
    ),
    Operation(
        method="get", path=f"{_JOB}/fires", tag="jobs", summary="Why did it not run? Past fires and those to come.",
        parameters=(given.JOB, *jobs.FiresQuery.parameters()),
        answers={200: {"anyOf": [
            record({"recent": array(ref("JobFire")), "upcoming": array(ref("Fire")), "warnings": array(TEXT)}),
            page(ref("JobFire"), warnings=array(TEXT), isPartial=TRUTH),
        ]}},
    ),
    Operation(
        method="get", path=f"{_JOB}/durations", tag="jobs", summary="How long its runs took: points of a chart.",
        parameters=(given.JOB, *jobs.DurationsQuery.parameters()), answers={200: ref("Durations")},
    ),
    Operation(
        method="get", path=f"{_JOB}/calendar", tag="jobs", summary="Its next days, and the changes of its clocks.",
        parameters=(given.JOB, *jobs.CalendarQuery.parameters()), refuses=(404,),
        answers={200: record({
            "timezone": TEXT,
            "days": array(record(
                {"date": {"type": "string", "format": "date"}, "fires": COUNT, "closed": COUNT}, {"isMore": TRUTH}
            )),
            "clocks": array(record({
                "ms": MS, "beforeS": {"type": "integer"}, "afterS": {"type": "integer"}, "fires": array(ref("Fire")),
            })),
        })},
    ),
    Operation(
        method="get", path=f"{_JOB}/versions", tag="versions", summary="What the job was: the newest 50 versions.",
        parameters=(given.JOB,), refuses=(404,),
        answers={200: page(ref("Version"), deleted={"type": ["object", "null"]})},
    ),
    Operation(
        method="get", path="/api/v1/deleted-jobs", tag="versions",
        summary="Jobs that a restore brings back, the last deleted first.",
        parameters=versions.DeletedQuery.parameters(), answers={200: page(ref("DeletedJob"))},
    ),
    Operation(
        method="get", path=f"{_JOB}/versions/{{revision}}", tag="versions", summary="One version with its spec.",
        parameters=(given.JOB, given.REVISION), answers={200: ref("Version")}, refuses=(404,),
    ),
    Operation(
        method="get", path=f"{_JOB}/versions/{{revision}}/compare", tag="versions", summary="What differs between two.",
        parameters=(given.JOB, given.REVISION, *versions.CompareQuery.parameters()),
        answers={200: record({
            "from": {"type": "integer"}, "to": {"type": "integer"}, "changes": array(record({"field": TEXT})),
        })},
        refuses=(404,),
    ),
    Operation(
        method="post", path=f"{_JOB}/versions/{{revision}}/restore", tag="versions", summary="Make it the job again.",
        parameters=(given.JOB, given.REVISION, given.IF_MATCH), takes=REASON.schema, headers=_ETAG,
        answers={200: ref("Saved"), 201: ref("Saved")}, refuses=(404, 409, 412),
    ),
    Operation(
        method="get", path="/api/v1/runs", tag="runs",
        summary="Runs that are going, then records, each newest plan time first; without output.",
        parameters=runs.ListQuery.parameters(),
        answers={200: record(
            {
                "items": array(ref("Run")), "nextCursor": maybe(TEXT), "warnings": array(TEXT),
                "lookedTime": maybe(MS),
            },
            {
                "waiting": array(ref("Run")), "groups": array(ref("RunGroup")), "records": {"type": "integer"},
                "isComplete": {"type": "boolean"},
            },
        )},
    ),
    Operation(
        method="get", path="/api/v1/statistics", tag="runs",
        summary="How many runs of each verdict each day or hour had, the newest first, and how long they took.",
        parameters=statistics.StatisticsQuery.parameters(),
        answers={200: record({
            "job": maybe(TEXT), "from": TEXT, "to": TEXT,
            "items": {"anyOf": [array(ref("DayCounts")), array(ref("HourCounts"))]}, "total": ref("Counts"),
            "warnings": array(TEXT),
        })},
        refuses=(404,),
    ),
    *(
        Operation(
            method="get", path=path, tag="runs", summary=summary, parameters=query.parameters(),
            answers={200: ref("Forecast")},
        )
        for path, summary, query in (
            (_FORECAST, "How many fires are to come, and how many slots they want.", forecast.ForecastQuery),
            (f"{_FORECAST}/week", "The same hour by hour, for a week.", forecast.WhichJobs),
        )
    ),
    Operation(
        method="get", path=f"{_FORECAST}/jobs", tag="runs", summary="The jobs that fire in an hour to come.",
        parameters=forecast.CrowdQuery.parameters(),
        answers={200: page(
            record({
                "name": TEXT, "revision": COUNT, "fires": COUNT, "slots": COUNT, "usualMs": maybe(COUNT),
                "words": TEXT, "timezone": TEXT, "maySpread": TRUTH,
            }),
            **{"from": MS}, to=MS, total=COUNT, fires=COUNT, suggested=array(TEXT), warnings=array(TEXT),
        )},
    ),
    Operation(
        method="post", path=f"{_FORECAST}/spread", tag="jobs",
        summary="What spreading these jobs would do; nothing is stored.",
        takes=forecast.BODY.schema, refuses=(404,),
        answers={200: record({
            "by": TEXT, "jitterSeconds": maybe(COUNT), "slots": COUNT, "before": _PEAK, "after": _PEAK,
            "minute": maybe(record({"time": MS, "before": record(_CROWDED), "after": record(_CROWDED)})),
            "items": array(record({
                "name": TEXT, "revision": COUNT, "changes": TRUTH, "may": TRUTH, "timezone": TEXT,
                "before": {"type": "object"}, "after": {"type": "object"},
            })),
        })},
    ),
    Operation(
        method="get", path="/api/v1/timeline", tag="runs", summary="Lanes of what ran, runs and is to come.",
        parameters=timeline.TimelineQuery.parameters(),
        answers={200: page(
            record({
                "name": TEXT, "state": TEXT, "sinceTime": maybe(MS), "jobs": COUNT, "usualMs": maybe(COUNT),
                "runs": array(record({"from": MS, "to": MS, "status": TEXT}, {
                    "id": TEXT, "counts": {"type": "object", "additionalProperties": COUNT}, "expected": MS,
                })),
                "fires": array(record({"time": MS, "count": COUNT})), "wholeFrom": maybe(MS), "wholeTo": maybe(MS),
            }),
            **{"from": MS, "to": MS}, now=MS, bucketMs=COUNT, by=TEXT, total=COUNT, paused=COUNT,
            used=array(record({"time": MS, "slots": COUNT})), usedFrom=maybe(MS),
            usedMean=array(record({"time": MS, "slots": {"type": "number"}})), warnings=array(TEXT),
        )},
    ),
    Operation(
        method="get", path=_RUN, tag="runs", summary="One run's whole life, from the moment it was accepted.",
        parameters=(given.RUN,), answers={200: ref("Run")}, refuses=(404,),
    ),
    Operation(
        method="get", path=f"{_RUN}/output", tag="runs", summary="What it has printed, also while it goes.",
        parameters=(given.RUN, output.LAST_EVENT_ID, *output.OutputQuery.parameters()),
        answers={200: output.OUTPUT}, refuses=(404,), also=("text/event-stream", "text/plain"),
    ),
    Operation(
        method="post", path=f"{_RUN}/kill", tag="runs", summary="End one run.", parameters=(given.RUN,),
        takes=REASON.schema, refuses=(404,),
        answers={200: record({"outcome": _OUTCOME, "message": TEXT})},
    ),
    Operation(
        method="post", path=f"{_RUN}/give-up", tag="runs", parameters=(given.RUN,),
        summary="Free the lock of a run that its worker cannot settle; its record is `lost`.",
        takes=NEEDED_REASON.schema, refuses=(404, 409),
        answers={200: record({"outcome": _GIVEN_UP, "message": TEXT})},
    ),
    Operation(
        method="get", path="/api/v1/workers", tag="workers", summary="Every worker's session, with its newest beat.",
        answers={200: page(ref("Worker"), warnings=array(TEXT))},
    ),
    Operation(
        method="get", path=_WORKER, tag="workers", parameters=(given.WORKER,), refuses=(404,),
        summary="One worker, what runs there, and the jobs that no other live worker fits.",
        answers={200: {"allOf": [ref("Worker"), record({
            "running": record({"items": array(ref("Run")), "count": COUNT}),
            "onlyThere": maybe(record({"items": array(TEXT), "count": COUNT})), "isAlone": TRUTH,
            "warnings": array(TEXT),
        })]}},
    ),
    Operation(
        method="get", path=f"{_WORKER}/history", tag="workers", parameters=(given.WORKER,), refuses=(404,),
        summary="What the worker's last day came to, how many slots were used, and what happened to it.",
        answers={200: record({
            "fromMs": MS, "toMs": MS, "verdicts": {"type": "object", "additionalProperties": COUNT},
            "slots": array(record({"ms": MS, "used": {"type": "number"}})),
            "events": maybe(array(record({
                "kind": TEXT, "ms": MS, "endMs": maybe(MS), "lasts": TRUTH, "by": maybe(TEXT), "reason": maybe(TEXT),
            }))),
        })},
    ),
    *(
        Operation(
            method="post", path=f"{_WORKER}/{verb}", tag="workers", summary=summary,
            parameters=(given.WORKER,), takes=REASON.schema, answers={200: {"type": "object"}}, refuses=(404, 409),
        )
        for verb, summary in (
            ("drain", "It takes nothing new; what runs goes on. Survives restarts."),
            ("undrain", "It takes fires again."),
        )
    ),
    Operation(
        method="delete", path=_WORKER, tag="workers", parameters=(given.WORKER,),
        summary="A worker that is not live is remembered no more.",
        answers={200: record({"name": TEXT, "message": TEXT})}, refuses=(404, 409),
    ),
    Operation(
        method="get", path=login.LOGIN, tag="login", summary="What a login page has to offer.",
        answers={200: record({"auth": TEXT, "password": TRUTH, "oidc": {"type": ["object", "null"]}})},
    ),
    Operation(
        method="post", path=login.LOGIN, tag="login", summary="Log in with a password: a session, in a cookie.",
        takes=login.LOGIN_BODY.schema, answers={200: _LOGGED_IN}, headers=_COOKIE, refuses=(409, 429),
    ),
    Operation(
        method="post", path=f"{login.LOGIN}/link", tag="login", summary="Log in with a link that works once.",
        takes=login.LINK_BODY.schema, answers={200: _LOGGED_IN}, headers=_COOKIE, refuses=(409, 429),
    ),
    Operation(
        method="get", path=login.OIDC, tag="login", summary="Off to the login provider; for browsers.",
        parameters=login_oidc.BeginQuery.parameters(), answers={302: None}, refuses=(404,),
    ),
    Operation(
        method="get", path=f"{login.OIDC}/callback", tag="login",
        summary="Back from the login provider: a session, in a cookie; the login page says what went wrong.",
        parameters=login_oidc.CallbackQuery.parameters(), answers={302: None}, headers=_COOKIE, refuses=(404,),
    ),
    Operation(
        method="post", path="/api/v1/logout", tag="login", summary="End the session by which this call comes.",
        answers={200: record({"message": TEXT})},
    ),
    Operation(
        method="get", path="/api/v1/whoami", tag="login", summary="Who calls, by which way, and what they may do.",
        answers={200: ref("Whoami")},
    ),
    Operation(
        method="post", path="/api/v1/password", tag="login",
        summary="Another password for the caller; their other sessions are over.",
        takes=login.PASSWORD_BODY.schema, answers={200: _LOGGED_IN}, headers=_COOKIE, refuses=(409, 429),
    ),
    Operation(
        method="get", path=login.SESSIONS, tag="login", summary="The sessions of the caller, or of another user.",
        parameters=login.SessionsQuery.parameters(), answers={200: page(ref("Session"), warnings=array(TEXT))},
    ),
    Operation(
        method="delete", path=f"{login.SESSIONS}/{{id}}", tag="login", summary="End a session, on all managers.",
        parameters=(given.SESSION,), answers={200: record({"id": TEXT, "message": TEXT})}, refuses=(404,),
    ),
    Operation(
        method="get", path=tokens.TOKENS, tag="login", summary="The tokens of the caller, or of another owner.",
        parameters=tokens.TokensQuery.parameters(), answers={200: page(ref("Token"), warnings=array(TEXT))},
    ),
    Operation(
        method="post", path=tokens.TOKENS, tag="login", summary="A new token: this answer alone has its text.",
        takes=tokens.BODY.schema, refuses=(404, 409),
        answers={201: {"allOf": [ref("Token"), record({"token": TEXT})]}},
    ),
    Operation(
        method="delete", path=f"{tokens.TOKENS}/{{id}}", tag="login", summary="It lets nobody in any more.",
        parameters=(given.TOKEN,), answers={200: record({"id": TEXT, "message": TEXT})}, refuses=(404,),
    ),
    Operation(
        method="post", path="/api/v1/schedule/preview", tag="schedule", takes=jobs.preview_schema(),
        summary="The next fires of a trigger that need not be saved, in words and with warnings.",
        answers={200: record({"words": TEXT, "fires": array(ref("Fire")), "warnings": array(TEXT), "tzdata": TEXT})},
    ),
    Operation(
        method="get", path="/api/v1/audit", tag="audit", summary="Who did what, newest first.",
        parameters=audit.AuditQuery.parameters(),
        answers={200: page(ref("AuditEntry"), waiting=given.COUNT, warnings=array(TEXT))},
    ),
    Operation(
        method="get", path="/api/v1/audit/verify", tag="audit", parameters=audit.VerifyQuery.parameters(),
        summary="Whether the audit holds together: the chains that end in the next 2,000 entries, each with its break.",
        answers={200: page(ref("AuditChain"), whole=TRUTH)},
    ),
    Operation(
        method="get", path="/api/v1/overview", tag="system",
        summary="Whether all is well: counts, and what needs attention.",
        answers={200: ref("Overview")},
    ),
    Operation(
        method="get", path="/api/v1/system", tag="system", summary="This manager, and what it sees.",
        answers={200: record({"version": TEXT, "manager": TEXT, "ready": {"type": "object"}, "nowMs": MS})},
    ),
    Operation(
        method="get", path="/api/v1/events", tag="system", summary="Server-sent events: what changes, as it does.",
        answers={200: None}, media_type="text/event-stream",
    ),
    Operation(
        method="get", path="/api/v1/users", tag="access", summary="A page of users, by name.",
        parameters=users.ListQuery.parameters(), answers={200: page(ref("User"))},
    ),
    Operation(
        method="post", path="/api/v1/users", tag="access", summary="Add a user.", takes=users.NEW_USER.schema,
        answers={201: ref("User")}, refuses=(409,),
    ),
    Operation(
        method="get", path=_USER, tag="access", summary="A user, with the bindings that reach them.",
        parameters=(given.USER,), answers={200: ref("User")}, refuses=(404,), headers=_ETAG,
    ),
    Operation(
        method="patch", path=_USER, tag="access", summary="Change a user's groups or password, or disable them.",
        parameters=(given.USER, given.IF_MATCH), takes=users.CHANGED_USER.schema, answers={200: ref("User")},
        refuses=(404, 409, 412),
    ),
    Operation(
        method="delete", path=_USER, tag="access", refuses=(404, 409), parameters=(given.USER,),
        answers={200: _REMOVED},
        summary="Remove a user with their sessions, tokens and bindings; 409: the last administrator.",
    ),
    Operation(
        method="get", path="/api/v1/services", tag="access", summary="A page of service accounts, by name.",
        parameters=users.ListQuery.parameters(), answers={200: page(ref("Service"))},
    ),
    Operation(
        method="post", path="/api/v1/services", tag="access", summary="Add a service account.",
        takes=services.NEW_SERVICE.schema, answers={201: ref("Service")},
    ),
    Operation(
        method="patch", path="/api/v1/services/{name}", tag="access", summary="Disable a service account, enable it.",
        parameters=(given.USER,), takes=services.CHANGED_SERVICE.schema, answers={200: ref("Service")},
        refuses=(404, 409),
    ),
    Operation(
        method="delete", path="/api/v1/services/{name}", tag="access", parameters=(given.USER,), refuses=(404, 409),
        summary="Remove a service account with its tokens and bindings.", answers={200: _REMOVED},
    ),
    Operation(
        method="get", path="/api/v1/bindings", tag="access", summary="Who has which role on what.",
        parameters=bindings.ListQuery.parameters(), answers={200: page(ref("Binding"))},
    ),
    Operation(
        method="post", path="/api/v1/bindings", tag="access", summary="Give somebody a role on some jobs.",
        takes=bindings.NEW_BINDING.schema, answers={201: ref("Binding")}, refuses=(409,),
    ),
    Operation(
        method="delete", path="/api/v1/bindings/{id}", tag="access", parameters=(given.BINDING,), refuses=(404, 409),
        summary="Take a binding back; 409: it makes the last administrator.",
        answers={200: record({"id": TEXT, "message": TEXT})},
    ),
    Operation(
        method="get", path="/api/v1/access/explain", tag="access",
        summary="What may this person do? Who may touch this job?", parameters=explain.ExplainQuery.parameters(),
        answers={200: record({"warnings": array(TEXT)}, {
            "subject": TEXT, "known": TRUTH, "disabled": TRUTH, "subjects": array(TEXT), "roles": array(TEXT),
            "administers": TRUTH, "tokens": COUNT, "bindings": array(ref("Binding")),
            "job": TEXT, "labels": {"type": "object"}, "who": array(ref("Binding")),
        })}, refuses=(404,),
    ),
    Operation(
        method="get", path=_CHANNELS, tag="notices", summary="A page of channels, by name.",
        parameters=notice_bodies.ListQuery.parameters(), answers={200: page(ref("Channel"))},
    ),
    Operation(
        method="post", path=_CHANNELS, tag="notices", summary="Add a place that messages go to.", headers=_ETAG,
        takes=channels.CHANNEL_BODY.named_schema, answers={201: _SAVED_CHANNEL}, refuses=(409,),
    ),
    Operation(
        method="get", path=f"{_CHANNELS}/{{name}}", tag="notices", summary="One channel.", headers=_ETAG,
        parameters=(given.CHANNEL,), answers={200: ref("Channel")}, refuses=(404,),
    ),
    Operation(
        method="put", path=f"{_CHANNELS}/{{name}}", tag="notices", summary="Make the channel, or replace it.",
        parameters=(given.CHANNEL, given.IF_MATCH, given.IF_NONE_MATCH), takes=channels.CHANNEL_BODY.schema,
        headers=_ETAG, answers={200: _SAVED_CHANNEL, 201: _SAVED_CHANNEL}, refuses=(409, 412),
    ),
    Operation(
        method="delete", path=f"{_CHANNELS}/{{name}}", tag="notices", parameters=(given.CHANNEL, given.IF_MATCH),
        summary="Remove the channel; 409: a rule or a job names it.", refuses=(404, 409, 412),
        answers={200: record({"name": TEXT, "message": TEXT})},
    ),
    Operation(
        method="post", path=f"{_CHANNELS}/{{name}}/test", tag="notices", summary="Send a test to the channel.",
        parameters=(given.CHANNEL,), takes=NOTHING.schema, answers={202: record({"notice": TEXT})}, refuses=(404,),
        headers={"Location": {"description": "Where it says what came of it.", "schema": TEXT}},
    ),
    Operation(
        method="get", path=_RULES, tag="notices", summary="A page of rules, by name.",
        parameters=notice_bodies.ListQuery.parameters(), answers={200: page(ref("Rule"))},
    ),
    Operation(
        method="post", path=_RULES, tag="notices", summary="Say which events of which jobs go where.", headers=_ETAG,
        takes=rules.RULE_BODY.named_schema, answers={201: _SAVED_RULE},
    ),
    Operation(
        method="get", path=f"{_RULES}/{{name}}", tag="notices", summary="One rule.", headers=_ETAG,
        parameters=(given.RULE,), answers={200: ref("Rule")}, refuses=(404,),
    ),
    Operation(
        method="put", path=f"{_RULES}/{{name}}", tag="notices", summary="Make the rule, or replace it.",
        parameters=(given.RULE, given.IF_MATCH, given.IF_NONE_MATCH), takes=rules.RULE_BODY.schema, headers=_ETAG,
        answers={200: _SAVED_RULE, 201: _SAVED_RULE}, refuses=(409, 412),
    ),
    Operation(
        method="delete", path=f"{_RULES}/{{name}}", tag="notices", summary="Remove the rule.", refuses=(404, 412),
        parameters=(given.RULE, given.IF_MATCH), answers={200: record({"name": TEXT, "message": TEXT})},
    ),
    Operation(
        method="get", path="/api/v1/silences", tag="notices", summary="A page of silences, by id.",
        parameters=notice_bodies.ListQuery.parameters(), answers={200: page(ref("Silence"))},
    ),
    Operation(
        method="post", path="/api/v1/silences", tag="notices", summary="Keep notices of some jobs back for a while.",
        takes=silences.NEW_SILENCE.schema, answers={201: record({"silence": ref("Silence")})}, refuses=(404,),
        headers={"Location": {"description": "What a DELETE ends it by.", "schema": TEXT}},
    ),
    Operation(
        method="delete", path="/api/v1/silences/{id}", tag="notices", summary="End a silence.", refuses=(404,),
        parameters=(given.SILENCE,), answers={200: record({"id": TEXT, "message": TEXT})},
    ),
    Operation(
        method="get", path="/api/v1/alerts", tag="notices", parameters=alerts.ListQuery.parameters(),
        summary="A page of open alerts, or of those that ended last, the newest first.",
        answers={200: record(
            {"items": array(ref("Alert")), "open": COUNT, "untold": COUNT, "nextCursor": maybe(TEXT)},
            {"groups": array(record({
                "cause": TEXT, "kind": TEXT, "exitCode": maybe(COUNT), "count": COUNT, "sinceTime": MS, "times": COUNT,
                "items": array(ref("Alert")), "jobs": array(TEXT),
            }))},
        )},
    ),
    Operation(
        method="post", path="/api/v1/alerts/ack", tag="notices", takes=alerts.ACKNOWLEDGED.schema,
        summary="A job's open alert is quiet until it is over; 409: it has none.", refuses=(404, 409),
        answers={200: record({"silence": ref("Silence")})},
    ),
    Operation(
        method="get", path=f"{_JOB}/notifications", tag="notices", parameters=(given.JOB,), refuses=(404,),
        summary="Who is told of what about the job, and by which rule.",
        answers={200: record({
            "items": array(record({"rule": maybe(TEXT), "on": array(TEXT), "after": COUNT, "to": array(TEXT)})),
            "alert": maybe(ref("Alert")), "silences": array(ref("Silence")),
        })},
    ),
    Operation(
        method="get", path=_NOTICES, tag="notices", summary="A page of notices, the newest first.",
        parameters=notices.ListQuery.parameters(), answers={200: page(ref("Notice"))},
    ),
    Operation(
        method="get", path=f"{_NOTICES}/{{id}}", tag="notices", summary="One notice, and what came of it.",
        parameters=(given.NOTICE,), answers={200: ref("Notice")}, refuses=(404,),
    ),
    Operation(
        method="post", path=f"{_NOTICES}/{{id}}/resend", tag="notices", parameters=(given.NOTICE,), refuses=(404, 409),
        summary="Send it again; 409: it is on its way.", takes=NOTHING.schema, answers={202: record({"notice": TEXT})},
    ),
    Operation(
        method="get", path="/api/v1/openapi.json", tag="system", summary="This document.",
        answers={200: {"type": "object"}},
    ),
)  # fmt: skip
