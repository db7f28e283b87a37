"""A change to a job, as the audit keeps it: field by field, without what is secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from common.json_text import dumps

MASKED: Final = "***"
SECRET_FIELDS: Final = frozenset({"env"})
"""Objects whose members' names are kept, and whose values are not."""
_LONGEST: Final = 1_000
_MOST_FIELDS: Final = 60


def changes_of(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> dict[str, Any]:
    """By field what it was (``from``) and what it is (``to``); of a field that is new or gone only one of them.

    Values of ``env`` are masked: their names are kept, and which of them have changed.
    """
    old, new = before or {}, after or {}
    changed = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    found: dict[str, Any] = {}
    for name in changed[:_MOST_FIELDS]:
        if name in SECRET_FIELDS:
            found[name] = _names(old.get(name), new.get(name))
            continue
        change = {}
        if name in old:
            change["from"] = brief(old[name])
        if name in new:
            change["to"] = brief(new[name])
        found[name] = change
    if len(changed) > _MOST_FIELDS:
        found["..."] = f"{len(changed) - _MOST_FIELDS} more fields"
    return found


def masked(value: object) -> object:
    """Names of what is secret, without values."""
    return dict.fromkeys(map(str, value), MASKED) if isinstance(value, Mapping) else MASKED


def brief(value: object) -> object:
    """The value, or the beginning of a long one with its digest, which distinguishes two of them."""
    text = value if isinstance(value, str) else dumps(value)
    if len(text) <= _LONGEST:
        return value
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return {"begins": text[:_LONGEST], "characters": len(text), "sha256": digest}


def _names(old: object, new: object) -> dict[str, list[str]]:
    were = old if isinstance(old, Mapping) else {}
    are = new if isinstance(new, Mapping) else {}
    changes = {
        "added": sorted(name for name in are if name not in were),
        "removed": sorted(name for name in were if name not in are),
        "changed": sorted(name for name in are if name in were and are[name] != were[name]),
    }
    return {what: names[:_MOST_FIELDS] for what, names in changes.items() if names}
