"""What etcd remembers of a call under ``dedupe/``: what it was answered, so that the same call again does nothing new.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Self

from common.protocol.compares import mod_revision_is
from common.protocol.txn import Delete, Get, KeyValue, Put, Txn
from common.protocol.values import MALFORMED, brief, instant, text, texts, tree, whole

KEPT_HEADERS: Final = ("Location", "ETag")
"""Of an answer, with it. No other is given on: workers can write here, and a forged cookie would be a login."""
ANYTHING: Final = "~"
"""In place of a job, for calls that start no run; no job is called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One call."""

    expires_ms: int
    """Past it, the same call is a new one; and the key is swept."""
    fingerprint: str = ""
    """Of the whole request, where another one under the same key is a mistake."""
    job_create_revision: int = 0
    """Of the job that was to run: one that was made again has not been asked."""
    token: str = ""
    """Of the very call, so that it knows its own write again."""
    status: int | None = None
    """None: it has not been answered yet."""
    answer: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def is_over(self, now_ms: int) -> bool:
        """Whether it counts no more."""
        return now_ms >= self.expires_ms

    def to_json(self) -> bytes:
        """The value of its key."""
        document = {
            "expiresMs": self.expires_ms, "fingerprint": self.fingerprint, "status": self.status, "token": self.token,
            "jobCreateRevision": self.job_create_revision, "answer": self.answer, "headers": dict(self.headers),
        }  # fmt: skip
        given = {name: value for name, value in document.items() if value or name == "expiresMs"}
        return json.dumps(given, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Read one; ValueError where it is none."""
        try:
            document = json.loads(value)
            status, answer = document.get("status"), document.get("answer")
            return cls(
                expires_ms=instant(document["expiresMs"]), fingerprint=text(document.get("fingerprint", "")),
                token=text(document.get("token", "")), job_create_revision=whole(document.get("jobCreateRevision", 0)),
                status=None if status is None else whole(status, least=200, most=299),
                answer=None if answer is None else tree(answer), headers=_headers(document.get("headers", {})),
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a remembered call: {brief(error)}") from error


def _headers(value: object) -> dict[str, str]:
    """ValueError: no answer of ours has them."""
    headers = texts(value)
    if not all(name in KEPT_HEADERS and one.isascii() and one.isprintable() for name, one in headers.items()):
        raise ValueError("its headers are none of ours")
    if not headers.get("Location", "/api/").startswith("/api/"):
        raise ValueError("it leads somewhere else")
    return headers


def digest_of(kind: str, *texts: str) -> str:
    """Where a call is remembered: what a client calls a key, apart from what others call so."""
    return sha256("\0".join((kind, *texts)).encode()).hexdigest()


def live(kv: KeyValue | None, now_ms: int) -> Remembered | None:
    """What is remembered there, as long as it counts; what cannot be read is written over."""
    try:
        remembered = None if kv is None else Remembered.from_json(kv.value)
    except ValueError:
        return None
    return None if remembered is None or remembered.is_over(now_ms) else remembered


def begin(key: str, call: Remembered, there: KeyValue | None) -> Txn:
    """The call goes on, in place of what was read; refused, it reads what is there."""
    return Txn(
        [mod_revision_is(key, 0 if there is None else there.mod_revision)], [Put(key, call.to_json())], [Get(key)]
    )


def end(key: str, revision: int, done: Remembered | None) -> Txn:
    """The answer in its place; None: the call is forgotten."""
    return Txn([mod_revision_is(key, revision)], [Delete(key) if done is None else Put(key, done.to_json())])
