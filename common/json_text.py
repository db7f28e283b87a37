"""JSON as etcron keeps it (compact, in UTF-8, whatever the texts in it) and as it answers. Pure: no clock, no I/O."""

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


def dumps(document: object) -> str:
    """Compact JSON in ASCII: what others wrote into the stores need not be Unicode, nor of JSON's types."""
    try:
        text = msgspec.json.encode(document, enc_hook=_plain)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        pass
    else:
        if text.isascii():  # nearly always, and ten times as fast as json's
            return text.decode("ascii")
    return json.dumps(document, separators=(",", ":"), default=str)


def _plain(value: object) -> object:
    """What msgspec does not know, as json writes it: first of all the numbers of BSON, which are a kind of ``int``."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, list) else str(value)
