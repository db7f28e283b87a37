"""Whether a job that is being saved could run anywhere, by the workers that are live now."""

from __future__ import annotations

from collections.abc import Sequence

from common.jobs.job import JobSpec
from common.protocol.member import Member
from common.protocol.placement import is_eligible
from manager.watching.eligibility import Eligibility


def placing_warnings(spec: JobSpec, members: Sequence[Member]) -> tuple[str, ...]:
    """A warning where workers are live and none of them has the labels and the slots that the job asks for."""
    if not members or any(is_eligible(spec, member.labels, member.slots) for member in members):
        return ()
    reason = Eligibility(spec, members).takers("").reason
    return (f"it cannot run on any worker that is live now: {reason}",)
