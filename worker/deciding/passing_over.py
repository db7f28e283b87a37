"""A run key stands where a decision would put its own: the job's mark goes over that fire, so that the job goes on.

It takes somebody's hand to come to this: a mark that was set back, or a run key that no decision has put.
"""

from __future__ import annotations

import logging

from common.etcd import EtcdClient, Session
from common.protocol.keys import Keys, encode_mark
from common.protocol.proposals import Proposal
from common.protocol.txn import Put, Txn, mod_revision_is, present, value_is

_log = logging.getLogger(__name__)


async def pass_over(client: EtcdClient, keys: Keys, proposal: Proposal, session: Session) -> bool:
    """Whether the way is free: the mark stands at the oldest fire that was in the way, or nothing is there any more."""
    found = await client.get_keys([keys.run(run_id) for run_id in proposal.records])
    in_the_way = next((run_id for run_id in proposal.records if keys.run(run_id) in found), None)
    if in_the_way is None:
        return True
    assert in_the_way.plan_ms is not None, "a decision is about planned fires"
    job, mark = keys.job(proposal.job.name), keys.mark(proposal.job.sequence)
    compares = [
        session.alive,
        mod_revision_is(job, proposal.job.revision),
        value_is(mark, encode_mark(proposal.decision.from_ms)),
        present(keys.run(in_the_way)),
    ]
    result = await client.txn(Txn(compares, [Put(mark, encode_mark(in_the_way.plan_ms))]))
    if result.succeeded:
        extra = {"action": "fire.passed_over", "run": str(in_the_way)}
        _log.error("%s has a run key that no decision has put there; it is passed over", in_the_way, extra=extra)
    return result.succeeded
