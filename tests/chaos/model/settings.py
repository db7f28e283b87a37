"""The timings, scaled down with their proportions kept (``lostAfter > ttl + killGrace + 2 x margin``)."""

from __future__ import annotations

from typing import Final

from common.jobs.job import Misfire
from common.protocol.keys import Keys

KEYS: Final = Keys()
TTL: Final = 4_000
LOST_AFTER: Final = 10_000
KILL_GRACE: Final = 1_000
MARGIN: Final = 1_000
LEAD: Final = 200
HEDGE: Final = 500
MISFIRE: Final = Misfire(grace_s=3, window_s=15, limit=5)
"""Of every job, but for its policy."""
RETRY_AFTER_S: Final = 0.3
STAMP: Final = 2_000
LOCK_RETRY: Final = 100
HAND_ON: Final = 1_000
OFFER: Final = 2_000
PATIENCE: Final = 2 * HEDGE + 250
TIMEOUT: Final = 2_000
"""Of a call."""
FINAL_PATIENCE: Final = 5_000
"""Then the steward delivers a final key in its writer's place."""
SCAN: Final = 2_000
"""The steward reads the run keys so often, and when a session has gone."""
STORE_PAUSE: Final = 3_000
START: Final = 1_000_000
FAULTS_FOR: Final = 60_000
QUIET: Final = 45_000
"""Faultless time at the end, long enough for everything to be settled."""
