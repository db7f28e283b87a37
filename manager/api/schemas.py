"""What goes into calls and comes out of them, as JSON Schema (2020-12); the parameters that calls share."""

from __future__ import annotations

from typing import Any, Final

from common.access.audit_chain import Outcome
from common.jobs.schema import job_schema
from common.notices.notice import NoticeKind, NoticeState
from common.protocol.request import Origin
from common.protocol.roster import Left
from common.protocol.run import Trigger
from common.protocol.saved_job import EditKind
from common.verdicts import Verdict
from manager.views.pending import WaitKind

Schema = dict[str, Any]

NAME_PATTERN: Final = r"^[A-Za-z0-9._-]{1,128}$"


def path(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def header(name: str, description: str, pattern: str) -> Schema:
    return {
        "name": name, "in": "header", "description": description, "schema": {"type": "string", "pattern": pattern},
    }  # fmt: skip


def text(most: int) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": most}


def whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


JOB: Final = path("name", "The job's name.", {"type": "string", "pattern": NAME_PATTERN})
RUN: Final = path("id", "The run's id, `<job>@<plan time in ms, or r-...>#<attempt>`, percent-encoded.", text(300))
WORKER: Final = path("name", "The worker's name.", text(128))
USER: Final = path("name", "The name of the user or service account.", text(128))
BINDING: Final = path("id", "The binding's id.", text(40))
CHANNEL: Final = path("name", "The channel's name.", {"type": "string", "pattern": NAME_PATTERN})
RULE: Final = path("name", "The rule's name.", {"type": "string", "pattern": NAME_PATTERN})
SILENCE: Final = path("id", "The silence's id.", text(40))
NOTICE: Final = path("id", "The notice's id.", text(64))
SESSION: Final = path("id", "The session's id.", text(12))
TOKEN: Final = path("id", "The token's id: what stands between the underscores.", text(12))
REVISION: Final = path("revision", "A revision of the job.", whole(1, 10**18 - 1))
IF_MATCH: Final = header("If-Match", "The ETag that the job must have, or `412`; `*`: any; `\"0\"`: none.",
                         r'^"[0-9]{1,18}"$')  # fmt: skip
IF_NONE_MATCH: Final = header("If-None-Match", "`*`: the job must not exist, or `412`.", r"^\*$")
IDEMPOTENCY_KEY: Final = header(
    "Idempotency-Key", "The same key with the same request gets the first one's answer again, for 24 hours.",
    r"^[!-~]{1,255}$",
)  # fmt: skip


TEXT: Final[Schema] = {"type": "string"}
MS: Final[Schema] = {"type": "integer", "description": "Milliseconds since the epoch."}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TRUTH: Final[Schema] = {"type": "boolean"}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    """The same, or null."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def array(items: Schema, most: int | None = None) -> Schema:
    return {"type": "array", "items": items} | ({} if most is None else {"maxItems": most})


def record(required: dict[str, Schema], more: dict[str, Schema] | None = None) -> Schema:
    """An answer's object: these members are always there, those may be; others may join them in later versions."""
    return {"type": "object", "required": list(required), "properties": required | (more or {})}


def page(items: Schema, **more: Schema) -> Schema:
    return record({"items": array(items), "nextCursor": maybe(TEXT)} | more)


_VERDICT: Final[Schema] = {"type": "string", "enum": [str(one) for one in Verdict]}
_TIMES: Final = {
    name: maybe(MS) for name in ("createTime", "planTime", "claimTime", "scheduleTime", "startTime", "endTime")
}
_LABELS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
_MADE: Final = {"revision": COUNT, "createdTime": MS, "createdBy": TEXT, "changedTime": MS, "problem": TEXT}
_COUNTS: Final[dict[str, Schema]] = {
    "runs": COUNT, **{str(one): COUNT for one in Verdict}, "timed": COUNT, "totalDurationMs": COUNT,
    "averageDurationMs": maybe(COUNT), "maxDurationMs": maybe(COUNT),
}  # fmt: skip

COMPONENTS: Final[dict[str, Schema]] = {
    "Problem": {
        **record(
            {"type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT, "code": TEXT},
            {
                "errors": array(ref("FieldError")), "detailCode": TEXT, "params": {"type": "object"},
                "reference": TEXT, "inDoubt": {"type": "boolean"},
            },
        ),
        "description": "RFC 9457. `code` is stable, and so is `detailCode`: which message `detail` is, with `params`. "
                       "`errors` names each field that was wrong, and how to mend it. `inDoubt`: it may have been "
                       "done.",
    },
    "Counts": record(_COUNTS),
    "DayCounts": record({"day": {"type": "string", "format": "date"}, **_COUNTS}),
    "HourCounts": record({"hour": {"type": "string", "format": "date-time"}, **_COUNTS}),
    "Forecast": record({
        "from": MS, "to": MS, "bucketMs": COUNT, "slots": COUNT, "jobs": COUNT, "estimated": COUNT, "unknown": COUNT,
        "items": array(record({
            "time": MS, "fires": {"type": "number"}, "slots": {"type": "number"}, "waitMs": maybe(COUNT),
        })),
        "warnings": array(TEXT),
    }),
    "FieldError": record(
        {
            "field": TEXT, "message": TEXT, "remedy": TEXT, "code": TEXT, "params": {"type": "object"},
            "remedyCode": TEXT, "remedyParams": {"type": "object"},
        }
    ),
    "Job": job_schema(),
    "Fire": record({"ms": MS, "utc": TEXT, "local": TEXT, "note": maybe(TEXT)}, {"open": TRUTH}),
    "Ending": record({"worker": TEXT, "sinceMs": MS, "processes": array({"type": "integer"})}),
    "OpenRun": record(
        {"id": TEXT, "planTime": MS, "startTime": maybe(MS), "worker": TEXT, "state": TEXT}, {"ending": ref("Ending")}
    ),
    "JobRow": record(
        {
            "name": TEXT, "spec": maybe(ref("Job")), "revision": {"type": "integer"}, "etag": TEXT,
            "state": {"type": "string", "enum": ["enabled", "paused", "broken"]}, "problem": maybe(TEXT),
            "blockedUntil": maybe(MS), "savedMs": maybe(MS), "savedBy": maybe(TEXT),
            "paused": {"anyOf": [record({"sinceMs": MS, "by": maybe(TEXT), "reason": maybe(TEXT)}), {"type": "null"}]},
            "words": TEXT, "nextFire": maybe(ref("Fire")), "lastResult": {"type": ["object", "null"]},
            "lastRun": {"type": ["object", "null"]},
            "recent": array(record({"status": _VERDICT, "planTime": MS, "runId": TEXT}, {"durationMs": COUNT})),
            "running": array(ref("OpenRun")),
            "waiting": maybe(record({"planTime": MS, "reason": TEXT})),
        },
        {
            "usualMs": COUNT, "lastSuccessTime": MS, "lastFailureTime": MS,
            "overdue": record({"planTime": MS, "reason": TEXT}),
        },
    ),
    "Durations": record(
        {
            "runs": COUNT, "timeoutMs": maybe(COUNT), "isCut": TRUTH,
            "points": array(record(
                {"runId": TEXT, "status": _VERDICT, "planTime": MS, "durationMs": COUNT},
                {"lateMs": COUNT, "runs": COUNT},
            )),
            "bands": array(record({"from": MS, "to": MS, "medianMs": COUNT, "p95Ms": COUNT})),
            "versions": array(record(
                {"revision": COUNT, "savedMs": MS, "planTime": MS, "changed": array(TEXT)},
                {"beforeMs": COUNT, "afterMs": COUNT},
            )),
        },
        {"medianMs": COUNT, "p95Ms": COUNT},
    ),
    "Overview": record({
        "nowMs": MS, "running": COUNT, "longest": array(ref("Run")),
        "jobs": record({
            "total": COUNT, "paused": COUNT, "broken": COUNT, "failing": maybe(COUNT), "late": maybe(COUNT),
        }),
        "workers": maybe(record({
            "taking": COUNT, "total": COUNT, "gone": array(record({"name": TEXT, "seenMs": MS})), "goneCount": COUNT,
            "refusing": array(TEXT), "refusingCount": COUNT, "drained": COUNT, "waiting": COUNT,
        })),
        "attention": maybe(record({
            "groups": array(ref("FailingAlike")), "moreGroups": COUNT, "lookedAt": COUNT,
        })),
        "fires": record({"state": TEXT, "sinceMs": maybe(MS), "why": maybe(TEXT)}),
        "checks": record({
            "etcd": TEXT, "logStore": TEXT, "sinceMs": maybe(MS), "problem": maybe(TEXT),
            "clocks": record({"state": TEXT, "problem": maybe(TEXT)}),
        }),
    }),
    "FailingAlike": record({
        "status": _VERDICT, "exitCode": maybe({"type": "integer"}), "signal": maybe({"type": "integer"}),
        "reason": maybe(TEXT), "count": COUNT, "sinceTime": MS, "result": {"type": "object"}, "lastLine": maybe(TEXT),
        "names": array(TEXT),
        "jobs": array(record({
            "name": TEXT, "labels": _LABELS, "state": maybe(TEXT), "runId": TEXT, "sinceTime": MS, "endTime": maybe(MS),
            "silencedUntil": maybe(MS),
        })),
    }),
    "User": record(
        {"name": TEXT},
        {
            "groups": array(TEXT), "disabled": TRUTH, "hasPassword": TRUTH, "createdMs": MS, "createdBy": TEXT,
            "changedMs": MS, "revision": COUNT, "bindings": array(ref("Binding")), "sessions": COUNT,
            "tokens": COUNT, "sessionsEnded": COUNT, "problem": TEXT,
        },
    ),
    "Service": record(
        {"name": TEXT}, {"description": TEXT, "disabled": TRUTH, "createdMs": MS, "createdBy": TEXT, "problem": TEXT}
    ),
    "Binding": record(
        {"id": TEXT},
        {
            "subject": TEXT, "role": TEXT, "labels": {"type": ["string", "object"]},
            "runAs": {"type": ["string", "array"]}, "workers": {"type": ["string", "object"]}, "createdMs": maybe(MS),
            "createdBy": maybe(TEXT), "words": TEXT, "warnings": array(TEXT), "problem": TEXT,
            "may": {"type": "object"}, "why": maybe(TEXT), "users": array(TEXT),
        },
    ),
    "Saved": record(
        {"job": maybe(ref("JobRow")), "changed": TRUTH},
        {"before": maybe(ref("Job")), "warnings": array(TEXT), "restored": {"type": "integer"}},
    ),
    "Run": record(
        {"id": TEXT, "jobName": TEXT, "attempt": {"type": "integer"},
         "state": {"type": "string", "enum": ["created", "claimed", "running", "ending", "ended", "finished"]}},
        {
            **_TIMES, "status": _VERDICT, "trigger": {"type": "string", "enum": [str(one) for one in Trigger]},
            "by": maybe(TEXT), "reason": maybe(TEXT), "err": TEXT, "output": TEXT, "outputBytes": COUNT,
            "outputTruncated": TRUTH, "exitCode": maybe({"type": "integer"}), "signal": maybe({"type": "integer"}),
            "worker": maybe(TEXT), "host": maybe(TEXT), "rangeEndTime": MS, "count": COUNT, "countIsMinimum": TRUTH,
            "revision": {"type": "integer"}, "fence": {"type": "integer"}, "maxRss": COUNT,
            "ending": ref("Ending"), "killPendingMs": maybe(COUNT), "cpuSeconds": {"type": "number"}, "late": TRUTH,
            "labels": _LABELS,
            "notBefore": MS, "expiresTime": maybe(MS), "dueTime": MS, "command": TEXT,
            "attempts": array(record({"id": TEXT, "attempt": COUNT}, {"status": TEXT, "state": TEXT, "notBefore": MS})),
            "origin": {"type": "string", "enum": [str(one) for one in Origin]}, "waitsFor": TEXT,
            "waitsForKind": {"type": "string", "enum": [str(one) for one in WaitKind]},
        },
    ),
    "RunGroup": record(
        {
            "error": TEXT, "count": COUNT, "jobs": array(TEXT), "jobCount": COUNT, "firstTime": MS, "lastTime": MS,
            "runs": array(ref("Run")),
        },
        {
            "status": _VERDICT, "exitCode": maybe({"type": "integer"}), "signal": maybe({"type": "integer"}),
            "reason": maybe(TEXT), "lastLine": maybe(TEXT),
        },
    ),
    "AuditEntry": record({
        "chain": TEXT, "seq": COUNT, "ms": MS, "who": TEXT, "via": TEXT, "address": TEXT, "action": TEXT,
        "object": TEXT, "outcome": {"type": "string", "enum": [str(one) for one in Outcome]},
        "details": {"type": "object"}, "hash": TEXT,
    }),
    "AuditChain": record({
        "chain": TEXT, "entries": COUNT, "problem": maybe(TEXT), "waiting": COUNT,
        "head": {"anyOf": [record({"seq": COUNT, "hash": TEXT, "ms": MS}), {"type": "null"}]},
    }),
    "JobFire": record(
        {"planTime": MS, "verdict": TEXT, "runId": maybe(TEXT), "reason": maybe(TEXT)},
        {"rangeEndTime": maybe(MS), "count": maybe(COUNT), "startTime": maybe(MS), "endTime": maybe(MS),
         "worker": maybe(TEXT), "trigger": maybe(TEXT), "by": maybe(TEXT)},
    ),
    "Version": record(
        {"revision": {"type": "integer"}, "current": TRUTH, "savedMs": MS, "savedBy": maybe(TEXT),
         "action": maybe({"type": "string", "enum": [str(one) for one in EditKind if one is not EditKind.DELETE]}),
         "changed": array(TEXT)},
        {
            "spec": {"type": "object"}, "pausedReason": TEXT,
            "changes": array(record({"field": TEXT, "before": {}, "after": {}})),
        },
    ),
    "DeletedJob": record({
        "name": TEXT, "deletedMs": MS, "deletedBy": maybe(TEXT), "revision": {"type": "integer"}, "description": TEXT,
        "labels": {"type": "object"},
    }),
    "Whoami": record({
        "name": TEXT, "user": maybe(TEXT), "via": TEXT, "subjects": array(TEXT), "roles": array(TEXT),
        "bindings": array({"type": "object"}), "auth": TEXT, "recovery": {"type": ["object", "null"]},
    }),
    "Session": record({
        "id": TEXT, "user": TEXT, "way": TEXT, "createdMs": MS, "expiresMs": MS, "address": TEXT, "agent": TEXT,
        "current": TRUTH,
    }),
    "Token": record({
        "id": TEXT, "name": TEXT, "owner": TEXT, "role": maybe(TEXT), "createdMs": MS, "createdBy": TEXT,
        "expiresMs": MS, "expired": TRUTH,
    }),
    "Channel": record(
        {"name": TEXT},
        {
            "kind": TEXT, "labels": {"type": ["string", "object"]}, "description": TEXT, "to": array(TEXT),
            "from": TEXT, "host": TEXT, "port": COUNT, "tls": TEXT, "user": TEXT, "passwordSecret": TEXT, "url": TEXT,
            "urlSecret": TEXT, "signingSecret": TEXT, "job": TEXT, **_MADE,
            "state": maybe(record({
                "waiting": COUNT, "failed": COUNT, "lastError": maybe(TEXT), "lastSentTime": maybe(MS)})),
        },
    ),
    "Rule": record(
        {"name": TEXT},
        {
            "labels": {"type": ["string", "object"]}, "system": TRUTH, "on": array(TEXT), "after": COUNT,
            "to": array(TEXT), "repeatHours": COUNT, "required": TRUTH, "description": TEXT, **_MADE,
        },
    ),
    "Silence": record(
        {"id": TEXT},
        {
            "labels": {"type": ["string", "object"]}, "jobs": array(TEXT), "fromTime": MS, "untilTime": MS,
            "reason": TEXT, "by": TEXT, "createdTime": MS, "problem": TEXT,
            "alert": maybe(record({"job": TEXT, "sinceTime": MS})),
        },
    ),
    "Alert": record({
        "id": TEXT, "job": maybe(TEXT), "subject": maybe(TEXT), "kind": TEXT,
        "state": {"type": "string", "enum": ["open", "ended"]}, "sinceTime": MS, "endTime": maybe(MS), "count": COUNT,
        "firstRun": maybe(TEXT), "lastRun": maybe(TEXT), "reason": maybe(TEXT), "lastSuccessTime": maybe(MS),
        "toldTime": maybe(MS), "channels": array(TEXT), "labels": _LABELS, "flapping": TRUTH, "well": TRUTH,
        "silencedUntil": maybe(MS),
        "acknowledged": maybe(record({"by": TEXT, "time": MS, "reason": TEXT, "silence": TEXT})),
    }),
    "Notice": record({
        "id": TEXT, "channel": TEXT, "state": {"type": "string", "enum": [str(one) for one in NoticeState]},
        "kind": {"type": "string", "enum": [str(one) for one in NoticeKind]}, "createdTime": MS, "dueTime": MS,
        "sentTime": maybe(MS), "tries": COUNT, "total": COUNT, "events": array({"type": "object"}),
        "groups": array(record({"kind": TEXT, "count": COUNT, "worker": maybe(TEXT)})), "error": maybe(TEXT),
        "message": maybe(TEXT),
    }),
    "Worker": record(
        {"state": TEXT},
        {
            "key": TEXT, "name": TEXT, "session": TEXT, "instance": TEXT, "host": TEXT, "address": TEXT,
            "problem": maybe(TEXT), "slots": COUNT, "labels": _LABELS, "version": TEXT, "tzdata": TEXT, "sinceMs": MS,
            "isolation": {"type": "string", "enum": ["users", "none"]}, "runsAs": {"type": ["object", "null"]},
            "seenMs": MS, "left": {"type": "string", "enum": [str(one) for one in Left]},
            "beat": {"type": ["object", "null"]}, "drained": {"type": ["object", "null"]},
            "clockOffsetMs": {"type": ["integer", "null"]}, "clockIsOff": TRUTH,
        },
    ),
}  # fmt: skip
