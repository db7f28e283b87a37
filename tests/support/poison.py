"""Keys that nobody of ours would write, under every prefix: what is no JSON, another's form of key, and huge values."""

from __future__ import annotations

from typing import Final

from common.etcd import EtcdClient

PREFIXES: Final = (
    "jobs", "marks", "runs", "locks", "requests", "kills", "giveups", "dedupe", "workers", "beats", "drains", "roster",
    "clocks", "leader", "seen", "versions", "channels", "rules", "silences", "tails",
)  # fmt: skip
_TAILS: Final = {
    "": b"\xff",
    "/": b"",
    "/bad": b"\xff\x00",
    "/bad/1/1": b"[" * 20_000,
    "/bad/r-1/x": b"null",
    "/bad/-1/1": b"{}",
    "/bad/99999999999999999999/1": b'{"state":"open"}',
    "/bad/0000000000000001/1/more": b"1e999",
    "/a~b~c": b'"text"',
    "/w9": b'{"kind":1,"wallMs":"soon","planMs":[]}',
    "/w9/77": b'{"worker":"w9"}',
    "/\udcff\udcfe": b"0",
    "/huge": b'{"a":"' + b"x" * 1_000_000 + b'"}',
}


async def poison(etcd: EtcdClient, root: str, prefix: str) -> list[str]:
    """Put bad keys under ``<root>/<prefix>``, and on it; those keys."""
    keys = [f"{root}/{prefix}{tail}" for tail in _TAILS]
    for key, value in zip(keys, _TAILS.values(), strict=True):
        await etcd.put(key, value)
    return keys
