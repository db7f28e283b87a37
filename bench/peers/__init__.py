"""What etcron is compared with. A peer that cannot be had on this machine is told as not measured, never estimated."""

from __future__ import annotations


class NotHereError(RuntimeError):
    """This peer cannot be measured here; the text says why."""
