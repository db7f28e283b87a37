"""What an importer gives back, and the pieces that they share. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 100
MOST: Final = 20_000
"""Things in one export."""

Object = Mapping[str, Any]


class UnreadableError(Exception):
    """The file is no export of that system. The text is the reason, and what to do instead."""


class RefusedError(Exception):
    """No job can do one thing in it. The text is the reason, and what to do instead."""


@dataclass(slots=True, kw_only=True)
class Found:
    """One thing in the export, and what becomes of it."""

    title: str
    """What it is called there."""
    job: dict[str, Any] | None = None
    """None: it is refused, and the last note says why."""
    notes: list[str] = field(default_factory=list)


def name_of(*parts: object) -> str:
    """A job's name, of what it is called there."""
    words = (_NOT_IN_NAMES.sub("-", str(part)).strip("-._") for part in parts if part)
    return ".".join(filter(None, words))[:_LONGEST_NAME].strip("-._")


def set_if(job: dict[str, Any], **fields: Any) -> None:
    """The fields that say anything."""
    job |= {name: value for name, value in fields.items() if value not in (None, "", 0, [], {}, False)}


def six_fields(expr: str) -> str:
    """Seconds first, as robfig's cron writes it, as our seven. Macros stay; ``@every`` is for the caller."""
    words = expr.split()
    if len(words) == 6:
        return " ".join([*words, "*"])
    return expr.strip()


def trigger_of(job: dict[str, Any], expr: str) -> None:
    """A cron expression, or ``@every 1h30m``."""
    if (every := re.fullmatch(r"@every\s+([0-9dhms]+)", expr.strip())) is not None:
        job["every"] = every[1]
    elif expr.strip() in ("@manually", "@reboot", ""):
        raise RefusedError(f"it has no schedule ({expr.strip() or 'none'}): make a job of it that is asked for")
    else:
        job["cronExpr"] = six_fields(expr)


def objects_in(text: str, *members: str) -> Iterator[Object]:
    """The objects of a JSON list, of a list in one of these members, of one object, or of one a line."""
    try:
        document = json.loads(text)
    except ValueError:
        document = _lines(text)
    except RecursionError as error:
        raise UnreadableError(f"it is no JSON ({error})") from None
    for member in members:
        if isinstance(document, dict) and isinstance(document.get(member), list):
            document = document[member]
            break
    found: Sequence[Any] = document if isinstance(document, list) else [document]
    if len(found) > MOST:
        raise UnreadableError(f"it has {len(found):,} entries, more than {MOST:,}; split it")
    if not all(isinstance(one, dict) for one in found):
        raise UnreadableError("it holds something that is no JSON object")
    yield from found


def _lines(text: str) -> list[Any]:
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"it is no JSON ({error}), nor a JSON object a line") from None


def whole(value: object) -> int:
    """A number of theirs, which may be a text; 0 where it is none."""
    try:
        return int(str(value or 0))
    except ValueError:
        return 0
