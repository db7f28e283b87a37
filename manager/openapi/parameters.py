"""The parameters that calls share."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

NAME_PATTERN: Final = r"^[A-Za-z0-9._-]{1,128}$"
TIME: Final[Schema] = {
    "anyOf": [
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": "^[0-9]{1,13}$", "description": "milliseconds since the epoch"},
    ]
}


def path(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def query(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def header(name: str, description: str, pattern: str) -> Schema:
    return {
        "name": name, "in": "header", "description": description, "schema": {"type": "string", "pattern": pattern},
    }  # fmt: skip


def text(most: int) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": most}


def whole(low: int, high: int, default: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "minimum": low, "maximum": high}
    return schema if default is None else {**schema, "default": default}


JOB: Final = path("name", "The job's name.", {"type": "string", "pattern": NAME_PATTERN})
RUN: Final = path("id", "The run's id, `<job>@<plan time in ms, or r-...>#<attempt>`, percent-encoded.", text(300))
WORKER: Final = path("name", "The worker's name.", text(128))
REVISION: Final = path("revision", "A revision of the job.", whole(1, 10**18 - 1))
CURSOR: Final = query(
    "cursor", "`nextCursor` of the page before, unchanged.", {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,2000}$"}
)
LIMIT: Final = query("limit", "Items of a page, at most.", whole(1, 500, 50))
IF_MATCH: Final = header("If-Match", "The ETag that the job must have, or `412`; `*`: any; `\"0\"`: none.",
                         r'^"[0-9]{1,18}"$')  # fmt: skip
IF_NONE_MATCH: Final = header("If-None-Match", "`*`: the job must not exist, or `412`.", r"^\*$")
IDEMPOTENCY_KEY: Final = header(
    "Idempotency-Key", "The same key with the same request gets the first one's answer again, for 24 hours.",
    r"^[!-~]{1,255}$",
)  # fmt: skip
