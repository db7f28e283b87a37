"""The timings, scaled down with their proportions kept (``lostAfter > ttl + killGrace + 2 x margin``)."""

from __future__ import annotations

from typing import Final

TTL: Final = 4_000
LOST_AFTER: Final = 10_000
KILL_GRACE: Final = 1_000
MARGIN: Final = 1_000
LEAD: Final = 200
HEDGE: Final = 500
GRACE: Final = 3_000
WINDOW: Final = 15_000
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
LIMIT: Final = 5
"""Of the fires that misfire ``all`` makes up for."""
START: Final = 1_000_000
FAULTS_FOR: Final = 60_000
QUIET: Final = 45_000
"""Faultless time at the end, long enough for everything to be settled."""
NO_LIMIT: Final = 10**12
"""In place of the latest start of what a user asked for."""
