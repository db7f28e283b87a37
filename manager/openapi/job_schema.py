"""A job as JSON Schema: what a save takes, and what is shown. The limits are the reader's (``common.jobs.reader``)."""

from __future__ import annotations

from typing import Any, Final

from common.jobs.job import MisfirePolicy, OnWorkerLost, Overlap

Schema = dict[str, Any]

_NULL: Final[Schema] = {"type": "null"}
_TEXT: Final[Schema] = {"type": "string"}
_DURATION: Final[Schema] = {"type": "string", "pattern": "^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}
_YEAR_S: Final = 366 * 86_400


def job_schema() -> Schema:
    """The schema of a job; null in place of a field is the same as leaving it out."""
    properties = {name: _or_null(schema) for name, schema in _PROPERTIES.items()}
    return {
        "type": "object", "additionalProperties": False, "required": ["command"],
        "properties": {**properties, "name": _PROPERTIES["name"], "command": _PROPERTIES["command"]},
        "description": "One of cronExpr, every, after and at is needed. The fields are explained in docs/jobs.md.",
    }  # fmt: skip


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, _NULL]}


def _text(most: int, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most}


def _number(low: float, high: float) -> Schema:
    return {"type": "number", "minimum": low, "maximum": high}


def _whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def _one_or_many(schema: Schema, most: int) -> Schema:
    return {"anyOf": [schema, {"type": "array", "items": schema, "minItems": 1, "maxItems": most}]}


def _choice(kind: Any) -> Schema:
    return {"type": "string", "enum": [str(one) for one in kind]}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _pairs(names: str) -> Schema:
    return {
        "type": "object", "maxProperties": 100, "propertyNames": {"pattern": names},
        "additionalProperties": _text(4096, 0),
    }  # fmt: skip


_LABEL: Final = "^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$"
_PROPERTIES: Final[dict[str, Schema]] = {
    "name": {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,128}$"},
    "command": _one_or_many(_text(32_768), 1000),
    "cronExpr": _one_or_many(_text(1000), 20),
    "every": _DURATION,
    "offset": _DURATION,
    "after": _DURATION,
    "at": _TEXT,
    "timezone": _text(100),
    "enabled": {"type": "boolean"},
    "startAt": _TEXT,
    "endAt": _TEXT,
    "calendar": _object(
        exclude={"type": "array", "items": _text(30), "maxItems": 500},
        include={"type": "array", "items": _text(30), "maxItems": 500},
    ),
    "jitterSeconds": _whole(0, 86_400),
    "overlap": _choice(Overlap),
    "misfire": _object(
        policy=_choice(MisfirePolicy), graceSeconds=_whole(1, 86_400), windowSeconds=_whole(0, _YEAR_S),
        limit=_whole(1, 100),
    ),
    "retry": _object(
        limit=_whole(0, 100), delaySeconds=_number(0, 86_400), backoff=_number(1, 10),
        maxDelaySeconds=_number(0, _YEAR_S), jitter=_number(0, 1),
        onExitCodes={"type": "array", "items": _whole(0, 255), "maxItems": 256},
        otherWorker={"type": "boolean"},
    ),
    "timeoutSeconds": _number(0, _YEAR_S),
    "killGraceSeconds": _number(0, 3600),
    "onWorkerLost": _choice(OnWorkerLost),
    "lostAfterSeconds": {"anyOf": [_number(1, _YEAR_S), {"const": "never"}]},
    "env": _pairs("^[A-Za-z_][A-Za-z0-9_]{0,127}$"),
    "workdir": _text(4096),
    "user": _text(32),
    "shell": _text(4096),
    "outputLimitBytes": _whole(0, 8 * 1024 * 1024),
    "labels": _pairs(_LABEL),
    "workers": {
        "type": "object", "maxProperties": 100, "propertyNames": {"pattern": _LABEL},
        "additionalProperties": _one_or_many(_text(4096, 0), 100),
    },
    "broadcast": {"type": "boolean"},
    "slots": _whole(1, 1024),
    "priority": _whole(-100, 100),
}  # fmt: skip
