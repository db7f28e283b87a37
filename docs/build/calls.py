"""``reference/calls.md``: every call of ``/api/v1``, from its OpenAPI document."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from manager.api.openapi import document

_HEAD: Final = """\
# Every call

All paths begin with `/api/v1`. What holds for all of them (errors, `If-Match`, `Idempotency-Key`, who may do what) is in
[the API](api.md); `GET /api/v1/openapi.json` has all of this for programs.

An object is written `{name: type}`; `name?` may be missing, `T|null` may be null, `[T]` is a list. `ms` is milliseconds since 1970, `n` a
whole number, `T` with a capital letter one of [the objects](#objects). Clients ignore members that they do not know.
"""
Schema = dict[str, Any]
_MANY: Final = 30
"""Words; the names of all time zones are told nowhere."""


def page() -> str:
    """The whole of it."""
    whole = document()
    tags: dict[str, list[str]] = {}
    for path, methods in whole["paths"].items():
        for method, call in methods.items():
            tags.setdefault(call["tags"][0], []).append(_call(method, path.removeprefix("/api/v1"), call))
    calls = "".join(f"\n## {tag[0].upper() + tag[1:]}\n" + "".join(some) for tag, some in tags.items())
    return _HEAD + calls + "\n## Objects\n" + "".join(_objects(whole["components"]["schemas"]))


def _call(method: str, path: str, call: Schema) -> str:
    query = [one for one in call["parameters"] if one["in"] == "query"]
    header = [one["name"] for one in call["parameters"] if one["in"] == "header" and one["name"] != "Idempotency-Key"]
    lines = [f"\n### {method.upper()} {path}\n\n{call['summary']}\n"]
    lines += [f"\n* `{one['name']}` {_type(one['schema'], top=True)}: {one['description']}" for one in query]
    if header:
        lines.append("\n* Headers: " + ", ".join(f"`{name}`" for name in header))
    if "requestBody" in call:
        lines.append(f"\n* Takes `{_type(call['requestBody']['content']['application/json']['schema'])}`")
    for status, answer in call["responses"].items():
        if status < "400":
            kinds = [
                f"`{_type(one['schema'])}`" if "schema" in one else kind for kind, one in answer["content"].items()
            ]
            lines.append(f"\n* {status}: {', '.join(kinds)}")
    return "".join(lines) + "\n"


def _objects(schemas: dict[str, Schema]) -> Iterator[str]:
    for name, schema in schemas.items():
        if name == "Job":
            yield "\n### Job\n\n[The fields of a job](fields.md).\n"
            continue
        text = f"{schema['description']}\n\n" if "description" in schema else ""
        yield f"\n### {name}\n\n{text}```text\n{_wrapped(_type(schema))}\n```\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def _type(schema: Schema, *, top: bool = False) -> str:
    """The schema in a short notation."""
    match schema:
        case {"$ref": str(name)}:
            return name.rpartition("/")[2]
        case {"anyOf": list(some)}:
            return "|".join(dict.fromkeys(_type(one) for one in some))
        case {"enum": list(words)} if len(words) > _MANY:
            return "text"
        case {"enum": list(words)}:
            return "|".join(str(word) for word in words) if not top else ", ".join(f"`{word}`" for word in words)
        case {"const": value}:
            return str(value)
        case _:
            pass
    kinds = schema.get("type", "object")
    return "|".join(_of_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _of_kind(kind: str, schema: Schema) -> str:
    match kind:
        case "object" if "properties" in schema:
            required = schema.get("required", ())
            members = (
                f"{name}{'' if name in required else '?'}: {_type(one)}" for name, one in schema["properties"].items()
            )
            return "{" + ", ".join(members) + "}"
        case "object":
            more = schema.get("additionalProperties")
            return f"{{...: {_type(more)}}}" if isinstance(more, dict) else "{...}"
        case "array":
            return f"[{_type(schema['items']) if 'items' in schema else '...'}]"
        case "integer":
            return "ms" if re.match("[Mm]illiseconds since", schema.get("description", "")) else _within(schema)
        case "string":
            return {"date-time": "time", "date": "date"}.get(schema.get("format", ""), "text")
        case "number" | "boolean" | "null":
            return {"number": "number", "boolean": "true|false", "null": "null"}[kind]
        case _:
            raise ValueError(f"no notation for {kind}")


def _within(schema: Schema) -> str:
    """`n`, with its limits where they are those of a parameter."""
    least, most = schema.get("minimum"), schema.get("maximum")
    default = f", {schema['default']} when left out" if "default" in schema else ""
    return f"n ({least} to {most}{default})" if most is not None and most < 10**12 else "n"
