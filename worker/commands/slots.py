"""How many runs this process can have at once: as many as it is asked for, as far as its file descriptors go."""

from __future__ import annotations

import logging
import resource
from typing import Final

_log = logging.getLogger(__name__)

_EACH: Final = 3
"""Descriptors of a run: its output's pipe, its pidfd, and one for what a spawn needs for a moment."""
_OWN: Final = 96
"""What the worker itself needs: etcd, log store, spool, event loop."""


def affordable_slots(wanted: int, descriptors: int | None = None) -> int:
    """The slots that the limit on open files leaves room for, at least 1; said loudly where that is fewer.

    Without it every fire beyond the limit would fail for a reason that is the worker's and not the job's. The limit is
    not raised here, because every command would inherit it.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if descriptors is None else descriptors
    room = wanted if soft == resource.RLIM_INFINITY else max(1, (soft - _OWN) // _EACH)
    if room < wanted:
        extra = {"action": "slots.fewer", "wanted": wanted, "slots": room, "open_files": soft}
        _log.warning(
            "%d slots need more open files than the %d allowed: %d slots are used (raise ulimit -n)",
            wanted, soft, room, extra=extra,
        )  # fmt: skip
    return min(wanted, room)
