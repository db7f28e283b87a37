"""Values that are nearly ours: right JSON of a stored value, with one field replaced or left out, or another added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

MISSING: Final = object()
ODD: Final[Mapping[str, Any]] = {
    "null": None, "true": True, "text": "soon", "no text": "", "digits": "7", "lone surrogate": "\ud800",
    "NUL": "a\0b", "line": "a\r\nb: c", "long text": "x" * 200_000, "below nothing": -1, "fraction": 1.5,
    "beyond a date": 10**15, "beyond 64 bits": 1 << 64, "beyond a float": 10**400, "NaN": float("nan"),
    "infinite": float("inf"), "list": [], "list of all": [1, None, "x", {}], "object": {}, "object of all": {"a": 5},
    "of lists": {"a": []}, "of no text": {"\ud800": "\ud800"}, "missing": MISSING,
}  # fmt: skip
DEPTHS: Final = (60, 300, 900, 5_000, 100_000)


def nearly(document: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Each as a value of etcd, with what is odd about it; nested objects are gone through, too."""
    yield "as it is", json.dumps(document).encode()
    yield "with one more", json.dumps({**document, "ofALaterVersion": [{}]}).encode()
    for path in _paths(document):
        for called, odd in ODD.items():
            yield f"{'.'.join(path)}: {called}", json.dumps(_with(document, path, odd)).encode()
        for depth in DEPTHS:
            deep = json.dumps(_with(document, path, "@@@")).replace('"@@@"', "[" * depth + "]" * depth)
            yield f"{'.'.join(path)}: {depth} lists deep", deep.encode()
            deep = json.dumps(_with(document, path, "@@@")).replace('"@@@"', '{"a":' * depth + "1" + "}" * depth)
            yield f"{'.'.join(path)}: {depth} objects deep", deep.encode()


def _paths(document: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in document.items():
        yield (*before, name)
        if isinstance(value, Mapping):
            yield from _paths(value, (*before, name))


def _with(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = dict(document)
    if len(path) > 1:
        changed[path[0]] = _with(document[path[0]], path[1:], value)
    elif value is MISSING:
        del changed[path[0]]
    else:
        changed[path[0]] = value
    return changed
