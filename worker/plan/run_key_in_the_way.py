"""A run key stands where a decision would put its own: the job's mark goes over that fire, so that the job goes on.

It takes somebody's hand to come to this: a mark that was set back, or a run key that no decision has put.
"""

from __future__ import annotations

import logging

from common.etcd import EtcdClient, Session
from common.protocol import fire_decisions
from common.protocol.keys import Keys
from common.protocol.proposals import Proposal

_log = logging.getLogger(__name__)


async def pass_over(client: EtcdClient, keys: Keys, proposal: Proposal, session: Session) -> bool:
    """Whether the way is free: the mark stands at the oldest fire that was in the way, or nothing is there any more."""
    found = await client.get_keys([keys.run(run_id) for run_id in proposal.records])
    in_the_way = next((run_id for run_id in proposal.records if keys.run(run_id) in found), None)
    if in_the_way is None:
        return True
    result = await client.txn(
        fire_decisions.pass_over(
            keys, proposal.job, in_the_way, mark_ms=proposal.decision.from_ms, guards=[session.alive]
        )
    )
    if result.succeeded:
        extra = {"action": "fire.passed_over", "run": str(in_the_way)}
        _log.error("%s has a run key that no decision has put there; it is passed over", in_the_way, extra=extra)
    return result.succeeded
