"""The timings that must fit each other, and the checks that say which of them do not. Pure.

The rules are those of the protocol's "Checked at start, and for each job when saved":

    lostAfter > ttl + killGrace + 2 x margin        a command has ended before its lock can pass on
    hedge > claimLead + maxClockSkew                the second in rank does not overtake the first

That two lost keep-alives in a row end no session needs no check: a session sends four in each TTL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from common.errors import Problem

DEFAULT_KILL_GRACE_S = 5
LEAST_TTL_S = 2
STAMP_VALID_S = 2.0
"""A process starts only within this time of sending a claim or re-stamp that succeeded: no attempt starts after it was
given up, or judged lost, while the next one runs."""
START_OVER_S = STAMP_VALID_S + 0.5
"""A run key that is unchanged for so long: nothing is started by it any more."""

OFFER_AFTER_MS = 5000
"""A fire undecided for so long after its dispatch time is the steward's, who offers it to all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """What every process of one etcron must agree on; `problems()` is empty when they fit each other."""

    lease_ttl_s: int = 10
    lost_after_s: int = 300
    claim_lead_ms: int = 200
    hedge_ms: int = 500
    max_clock_skew_ms: int = 250
    margin_s: float = 2.0
    """What the protocol allows for a process that is slow to act."""

    @property
    def least_grace_s(self) -> int:
        """The smallest `misfire.graceSeconds`: twice the hedge, rounded up."""
        return math.ceil(2 * self.hedge_ms / 1000)

    def problems(self, kill_grace_s: float = DEFAULT_KILL_GRACE_S) -> list[Problem]:
        """What does not fit, all of it; for a job with this grace between TERM and KILL."""
        problems: list[Problem] = []
        if self.lease_ttl_s < LEAST_TTL_S:
            message = f"{self.lease_ttl_s} is less than etcd grants"
            problems.append(Problem(field="leaseTtlSeconds", message=message, remedy=f"give at least {LEAST_TTL_S}"))
        bound_ms = self.claim_lead_ms + self.max_clock_skew_ms
        if self.hedge_ms <= bound_ms:
            message = f"{self.hedge_ms} lets the second worker in rank overtake the first"
            sum_of = f"claimLeadMs {self.claim_lead_ms} + maxClockSkewMs {self.max_clock_skew_ms}"
            remedy = f"give more than {bound_ms} ({sum_of}), or lower those"
            problems.append(Problem(field="hedgeMs", message=message, remedy=remedy))
        return problems + self._lost_after_problems(self.lost_after_s, kill_grace_s)

    def job_problems(self, *, lost_after_s: float | None, kill_grace_s: float, misfire_grace_s: float) -> list[Problem]:
        """What of a job's own timings does not fit these; `lost_after_s` None stands for "never"."""
        problems = [] if lost_after_s is None else self._lost_after_problems(lost_after_s, kill_grace_s)
        if misfire_grace_s < self.least_grace_s:
            problems.append(
                Problem(
                    field="misfire.graceSeconds",
                    message=f"{misfire_grace_s:g} s is over before the second worker in rank has tried twice",
                    remedy=f"give at least {self.least_grace_s} (2 x hedgeMs, rounded up)",
                )
            )
        return problems

    def _lost_after_problems(self, lost_after_s: float, kill_grace_s: float) -> list[Problem]:
        bound_s = self.lease_ttl_s + kill_grace_s + 2 * self.margin_s
        if lost_after_s > bound_s:
            return []
        return [
            Problem(
                field="lostAfterSeconds",
                message=f"{lost_after_s:g} would pass a lock on while its command may still be ending",
                remedy=f"give more than {bound_s:g} (leaseTtlSeconds {self.lease_ttl_s} + killGraceSeconds "
                f"{kill_grace_s:g} + 2 x {self.margin_s:g} s), or lower those",
            )
        ]
