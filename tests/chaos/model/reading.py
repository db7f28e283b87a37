"""The protocol's readers, each value read once."""

from __future__ import annotations

from functools import lru_cache

from common.protocol.kill import Kill
from common.protocol.member import Member
from common.protocol.placement import Candidate, Placement
from common.protocol.planned_job import PlannedJob, read_job
from common.protocol.request import Request
from common.protocol.run import RunEntry
from common.protocol.txn import KeyValue
from tests.chaos.model.settings import KEYS

run_of = lru_cache(1 << 14)(KEYS.run_of)
entry_in = lru_cache(1 << 12)(RunEntry.from_json)
placement_of = lru_cache(1 << 8)(Placement)


@lru_cache(1 << 10)
def job_in(kv: KeyValue) -> PlannedJob:
    """The same object for the same revision."""
    return read_job(KEYS.job_of(kv.key), kv)


@lru_cache(1 << 12)
def request_in(kv: KeyValue) -> Request:
    return Request.from_json(kv.value, run_id=run_of(kv.key), revision=kv.mod_revision)


@lru_cache(1 << 12)
def kill_in(kv: KeyValue) -> Kill:
    return Kill.from_json(kv.value, run_id=run_of(kv.key), revision=kv.create_revision)


@lru_cache(1 << 10)
def member_in(kv: KeyValue) -> Member:
    worker, session = KEYS.session_of(kv.key)
    return Member.from_json(kv.value, worker=worker, session=session, lease=kv.lease)


def candidate(member: Member) -> Candidate:
    return Candidate(member.worker, member.slots)
