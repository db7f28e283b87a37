"""JSON as etcron keeps it: compact, in UTF-8, whatever the texts in it. Pure: no clock, no I/O."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def to_json(value: Any) -> bytes:
    """A msgspec struct, or what JSON knows.

    Lone surrogates, for which UTF-8 has no bytes, are kept: nobody's words keep a verdict from being written.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _ENCODE(msgspec.to_builtins(value)).encode(errors="surrogatepass")
