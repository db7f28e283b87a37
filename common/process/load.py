"""How busy this machine is, for the beat: nobody decides by it, so a machine that does not say is no reason to stop."""

from __future__ import annotations

import psutil


def machine_load() -> tuple[float, float]:
    """The load average of the last minute, and the memory in use in percent; zeros where the machine does not say."""
    try:
        return round(psutil.getloadavg()[0], 2), psutil.virtual_memory().percent
    except OSError:  # out of file descriptors, say
        return 0.0, 0.0
