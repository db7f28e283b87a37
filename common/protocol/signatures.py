"""What managers sign, and how it is judged: a worker runs nothing that etcd alone asks for.

    a job    cluster, name, generation, digest of the spec, digest of what its save wrote beside it
    a run    cluster, the job's name, the run's fire, digest of its args, env, not-before and expiry     (`Grant`)
    a kill   cluster, the job's name, when, digest of run, who and why

The text that is signed names all of these, so a signature is of no use for another job, run or cluster. Ed25519 itself
is behind `Signs` and `Verifies` (``common/signing``). Pure: no clock, no I/O.

*Generation*: milliseconds since the epoch by the manager that signs, at least one more than that of the spec replaced.
A worker refuses a job below the highest that it has verified. Signing anew all that a backup has brought back
(``etcron signing sign-all --again``) therefore raises every job above what workers have seen.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, Self

from msgspec import Struct

from common.protocol.values import MALFORMED, name, text, whole

_VERSION: Final = "etcron signature 1"
SIGNATURE: Final = "signature"
"""The member of a job, and of a kill, that has it; what is signed is the rest."""


class SigningMode(StrEnum):
    """What a worker does about what no manager has signed. Its own configuration says it, nothing in etcd."""

    OFF = "off"
    WARN = "warn"
    """Runs it, and says so."""
    REQUIRE = "require"
    """Sets it aside."""


class Signs(Protocol):
    """A private key."""

    @property
    def key(self) -> str:
        """Its name: a digest of the public key."""

    def sign(self, message: bytes) -> bytes:
        """The same for the same message, so that a transaction that is sent again is the same one."""


class Verifies(Protocol):
    """Public keys."""

    def knows(self, key: str) -> bool: ...
    def verifies(self, key: str, message: bytes, signature: bytes) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Which key signed a document, and as which generation."""

    key: str
    generation: int
    value: str
    """Base64 (for URLs)."""

    def to_document(self) -> dict[str, Any]:
        return {"key": self.key, "generation": self.generation, "value": self.value}

    @classmethod
    def read(cls, value: object) -> Self | None:
        """None where it is none: then the document is not signed."""
        if not isinstance(value, Mapping):
            return None
        try:
            return cls(key=name(value["key"]), generation=whole(value["generation"]), value=text(value["value"]))
        except MALFORMED:
            return None


class Grant(Struct, frozen=True, kw_only=True, rename="camel"):
    """A manager's signature for a run that a user asked for; it goes along with retry, rerun and hand-on."""

    key: str
    value: str
    not_before_ms: int
    expires_ms: int
    """Past it, no worker runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRun:
    """What a grant is for."""

    sequence: str
    """What its run goes by: the job, or a worker's own sequence of it."""
    fire: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    scope: str | None = None
    """As of its request."""


def canonical(document: object) -> bytes:
    """The same bytes for the same JSON, however it was spelled: members in order, ASCII, no spaces."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def digest(document: object) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(document)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Judges signatures by public keys. Each fault is in words that complete "it"; None: a manager has signed it."""

    cluster: str
    keys: Verifies

    def key_fault(self, signature: Signature | Grant | None) -> str | None:
        """What is known without reckoning."""
        if signature is None:
            return "is not signed"
        return None if self.keys.knows(signature.key) else f"is signed with key {signature.key:.40}, not known here"

    def job_fault(self, name: str, signature: Signature | None, *, spec: Mapping[str, Any], beside: str) -> str | None:
        """``beside``: the digest of what its save wrote beside the spec."""
        if (fault := self.key_fault(signature)) is not None or signature is None:
            return fault
        message = _of_job(self.cluster, name, signature.generation, spec=spec, beside=beside)
        return self._fault(signature.key, message, signature.value)

    def run_fault(self, run: AskedRun, grant: Grant | None) -> str | None:
        """Without a look at its times."""
        if (fault := self.key_fault(grant)) is not None or grant is None:
            return fault
        return self._fault(grant.key, _of_run(self.cluster, run, grant.not_before_ms, grant.expires_ms), grant.value)

    def kill_fault(self, job: str, signature: Signature | None, document: Mapping[str, Any]) -> str | None:
        if (fault := self.key_fault(signature)) is not None or signature is None:
            return fault
        message = _of_kill(self.cluster, job, signature.generation, document)
        return self._fault(signature.key, message, signature.value)

    def _fault(self, key: str, message: bytes, value: str) -> str | None:
        try:
            signature = base64.urlsafe_b64decode(value.encode("ascii"))
        except (UnicodeError, binascii.Error):
            return "has a signature that cannot be read"
        if self.keys.verifies(key, message, signature):
            return None
        return "is not what was signed, or was signed for another cluster or under another name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Signs for one cluster, and tells what was signed before."""

    signer: Signs
    trust: Trust

    def job(self, name: str, generation: int, *, spec: Mapping[str, Any], beside: str) -> Signature:
        """The signature of a spec; ``beside`` as for `Trust.job_fault`."""
        return self._signature(
            generation, _of_job(self.trust.cluster, name, generation, spec=spec, beside=beside)
        )  # fmt: skip

    def run(self, run: AskedRun, *, not_before_ms: int, expires_ms: int) -> Grant:
        """The signature of a run that a user asked for."""
        value = _encoded(self.signer.sign(_of_run(self.trust.cluster, run, not_before_ms, expires_ms)))
        return Grant(key=self.signer.key, value=value, not_before_ms=not_before_ms, expires_ms=expires_ms)

    def kill(self, job: str, at_ms: int, document: Mapping[str, Any]) -> Signature:
        """The signature of a kill."""
        return self._signature(at_ms, _of_kill(self.trust.cluster, job, at_ms, document))

    def _signature(self, generation: int, message: bytes) -> Signature:
        return Signature(key=self.signer.key, generation=generation, value=_encoded(self.signer.sign(message)))


class Proof:
    """What a job at one revision is judged by, once: its value until then, the fault that was found afterwards."""

    __slots__ = ("fault", "signature", "value")

    def __init__(self, value: bytes, signature: Signature | None) -> None:
        self.value: bytes | None = value
        """None: it has been judged."""
        self.signature = signature
        self.fault: str | None = None


def _of_job(cluster: str, name: str, generation: int, *, spec: Mapping[str, Any], beside: str) -> bytes:
    return _message("job", cluster, name, generation, {"spec": digest(spec), "beside": beside})


def _of_run(cluster: str, run: AskedRun, not_before_ms: int, expires_ms: int) -> bytes:
    document: dict[str, Any] = {
        "fire": run.fire, "args": list(run.args), "env": dict(run.env), "notBeforeMs": not_before_ms,
        "expiresMs": expires_ms,
    }  # fmt: skip
    if run.scope is not None:
        document["scope"] = run.scope
    return _message("run", cluster, run.sequence, not_before_ms, {"run": digest(document)})


def _of_kill(cluster: str, job: str, at_ms: int, document: Mapping[str, Any]) -> bytes:
    return _message("kill", cluster, job, at_ms, {"kill": digest(document)})


def _message(kind: str, cluster: str, job: str, generation: int, digests: Mapping[str, str]) -> bytes:
    message = {"is": _VERSION, "kind": kind, "cluster": cluster, "name": job, "generation": generation, **digests}
    return canonical(message)


def _encoded(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).decode()
