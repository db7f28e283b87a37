"""A wish for one run, under ``requests/<job>/<plan or r-id>/<attempt>``: the way in beside the schedule.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import msgspec

from common.jobs.job import JobSpec
from common.protocol.keys import CHAIN, Keys, RunId
from common.protocol.run import Trigger
from common.protocol.signatures import AskedRun, Grant, digest
from common.protocol.txn import KeyValue
from common.protocol.values import MALFORMED, brief, instant, instant_or_none, name, text, texts, whole, words_or_none


class Origin(StrEnum):
    """Why there is a request."""

    OFFERED = "offered"
    """No worker took the fire in time: every one may."""
    HANDED_ON = "handedOn"
    """The worker that had claimed it could not start it."""
    CATCH_UP = "madeUp"
    """A misfire that the job's policy makes up for."""
    RUN_NOW = "runNow"
    """A user asked for it."""
    RETRY = "retry"
    """The attempt before it failed."""
    RERUN = "rerun"
    """The attempt before it was lost with its worker."""
    CHAIN = "chain"
    """The next run of an ``after`` job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Run this once, by any eligible worker."""

    run_id: RunId
    origin: Origin
    job_create_revision: int
    """Of the job when it was made: a job that was deleted and made again does not run it.

    0 in etcd: the request's own revision, for it was put by the transaction that made the job.
    """
    plan_ms: int
    dispatch_ms: int
    not_before_ms: int
    expires_ms: int | None = None
    trigger: Trigger = Trigger.SCHEDULE
    by: str | None = None
    note: str | None = None
    """Why the user asked for it."""
    create_ms: int | None = None
    """When the run was asked for; of a retry or rerun: when its first attempt was."""
    args: tuple[str, ...] = ()
    """Of this run: more arguments for the command."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of this run: variables beside and over the job's."""
    scope: str | None = None
    """Of a request with `args` or `env`: what of the job the rights to choose code were judged by (`scope_of`). A job
    that has another one since does not run it. None: it chooses nothing, or was made by a version that did not say.
    """
    avoid: str | None = None
    """A worker that takes it only where no other may."""
    grant: Grant | None = None
    """The manager's signature of a run that a user asked for."""
    mark_ms: int | None = None
    """Of a retry: the job's mark when its lock came free. A newer fire that was decided since has taken its place."""
    revision: int = 0
    """The key's mod revision; 0 for one that is not written yet."""

    @property
    def is_asked_for(self) -> bool:
        """Whether a user asked for the run, or for the one that it repeats: it runs although the job is paused."""
        return self.trigger in (Trigger.MANUAL, Trigger.API) or self.run_id.plan_ms is None

    @property
    def asked_run(self) -> AskedRun:
        """What a grant of it is for: every attempt of it."""
        return AskedRun(
            sequence=self.run_id.job, fire=self.run_id.fire, args=self.args, env=self.env, scope=self.scope
        )  # fmt: skip

    def is_of_scope(self, spec: JobSpec) -> bool:
        """Whether the job still is what rights were judged by, where the request chooses code."""
        return self.scope is None or self.scope == scope_of(spec)

    def is_expired(self, now_ms: int) -> bool:
        """Whether it may not be claimed any more; the next run of an ``after`` job always may."""
        return self.expires_ms is not None and not self.is_chain and now_ms > self.expires_ms

    @property
    def is_chain(self) -> bool:
        """Whether it lies under the fixed key of an ``after`` job's next run."""
        return self.origin is Origin.CHAIN

    def key(self, keys: Keys) -> str:
        """Where it lies in etcd."""
        return keys.chain(self.run_id.job) if self.is_chain else keys.request(self.run_id)

    def to_json(self) -> bytes:
        """The value of the request's key."""
        document: dict[str, Any] = {
            "origin": str(self.origin), "jobCreateRevision": self.job_create_revision, "planMs": self.plan_ms,
            "dispatchMs": self.dispatch_ms, "notBeforeMs": self.not_before_ms, "expiresMs": self.expires_ms,
            "trigger": str(self.trigger), "by": self.by,
        }  # fmt: skip
        more = {
            "note": self.note, "createMs": self.create_ms, "args": list(self.args) or None,
            "env": dict(self.env) or None, "scope": self.scope, "avoid": self.avoid, "markMs": self.mark_ms,
            "grant": None if self.grant is None else msgspec.to_builtins(self.grant),
        }  # fmt: skip
        document.update((name, value) for name, value in more.items() if value is not None)
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes, *, run_id: RunId, revision: int = 0) -> Self:
        """Read a request; ValueError where it is none."""
        try:
            document = json.loads(value)
            avoid = document.get("avoid")
            plan_ms = instant(document["planMs"])
            if run_id.fire == CHAIN:
                run_id = RunId.planned(run_id.job, plan_ms)
            return cls(
                run_id=run_id, revision=revision, origin=Origin(document["origin"]),
                job_create_revision=whole(document["jobCreateRevision"]) or revision, plan_ms=plan_ms,
                create_ms=instant_or_none(document.get("createMs")),
                args=_arguments(document.get("args", [])), env=texts(document.get("env", {})),
                scope=words_or_none(document.get("scope")),
                avoid=None if avoid is None else name(avoid), mark_ms=instant_or_none(document.get("markMs")),
                dispatch_ms=instant(document["dispatchMs"]), not_before_ms=instant(document["notBeforeMs"]),
                expires_ms=instant_or_none(document.get("expiresMs")),
                trigger=Trigger(document["trigger"]), by=words_or_none(document.get("by")),
                note=words_or_none(document.get("note")), grant=read_grant(document.get("grant")),
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a request: {brief(error)}") from error


def read_request(keys: Keys, kv: KeyValue | None) -> Request | None:
    """The request in a key; None where there is none, or none of ours."""
    if kv is None:
        return None
    try:
        return Request.from_json(kv.value, run_id=keys.run_of(kv.key), revision=kv.mod_revision)
    except ValueError:
        return None


def is_request_of(keys: Keys, kv: KeyValue | None, run: RunId) -> bool:
    """Whether the key asks for this run; the one of a job's next link may ask for any of its fires."""
    request = read_request(keys, kv)
    return request is not None and request.run_id == run


def scope_of(spec: JobSpec) -> str:
    """What rights to save a job look at, as one short text: its labels, its user, the workers that it asks for."""
    workers = {label: sorted(values) for label, values in spec.workers.items()}
    return digest({"labels": dict(spec.labels), "user": spec.user, "workers": workers})[:32]


def read_grant(value: object) -> Grant | None:
    """None where it is none: then no manager has granted the run."""
    try:
        return None if value is None else msgspec.convert(value, Grant)
    except msgspec.ValidationError:
        return None


def _arguments(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("its arguments are no list")
    return tuple(map(text, value))
