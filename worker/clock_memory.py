"""Where the wall clock stood when it was last found right, kept in the data directory: a restart forgets no jump.

What is kept is the difference of the wall clock and the boot clock, which goes on until the machine is booted again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from common.clock import Clock

_log = logging.getLogger(__name__)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_READINGS: Final = 3
_AT_ONCE_S: Final = 0.01


class ClockMemory:
    """One worker's file ``clock.json``."""

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        *,
        in_turn: Callable[[Callable[[], None]], None],
        boot_id: str | None = None,
    ) -> None:
        """``in_turn(work)`` has the disk's thread do it. ``boot_id``: which boot this is; None: as the kernel says."""
        self._path = directory / "clock.json"
        self._clock = clock
        self._boot_id = _read_boot_id() if boot_id is None else boot_id
        self._in_turn = in_turn
        self._kept: tuple[float, int] | None = self._read()
        self._is_to_be_written = False

    def recall(self) -> tuple[float, int] | None:
        """How far the clock is from where it was right, and by how much that may be wrong, in ms; None: unknown."""
        now_ms = self._difference_ms()
        return None if self._kept is None or now_ms is None else (now_ms - self._kept[0], self._kept[1])

    def remember(self, offset_ms: int, within_ms: int) -> None:
        """It has been found right, that far (in ms) from the others'; a file that cannot be written stays as it is."""
        now_ms = self._difference_ms()
        if now_ms is None:
            return
        right_ms = now_ms - offset_ms
        if self._kept is not None:
            known_ms, known_within_ms = self._kept
            if within_ms >= known_within_ms and abs(right_ms - known_ms) <= within_ms:
                return  # nothing new, and nothing better
        self._keep((right_ms, within_ms))

    def forget(self) -> None:
        """It is taken for right though nobody has compared it; a file that cannot be removed stays."""
        self._keep(None)

    def _keep(self, kept: tuple[float, int] | None) -> None:
        self._kept = kept
        if not self._is_to_be_written:  # else that writes this, too: on a disk that hangs no more than one waits
            self._is_to_be_written = True
            self._in_turn(self._write)

    def _write(self) -> None:
        """In the disk's thread."""
        self._is_to_be_written = False
        kept, beside = self._kept, self._path.with_suffix(".new")
        try:
            if kept is None:
                self._path.unlink()
                return
            beside.write_text(json.dumps({"bootId": self._boot_id, "rightMs": round(kept[0]), "withinMs": kept[1]}))
            os.replace(beside, self._path)
        except OSError as error:  # a full disk; what it knew of this boot is no more wrong than before
            _log.debug("not kept where the clock stands: %s", error, extra={"action": "clock.not_kept"})
            with suppress(OSError):
                beside.unlink()

    def _difference_ms(self) -> float | None:
        for _ in range(_READINGS):
            before_s = self._clock.boottime()
            wall_ms = self._clock.wall_ms()
            if self._clock.boottime() - before_s <= _AT_ONCE_S:
                return wall_ms - before_s * 1000
        return None  # frozen between the two each time

    def _read(self) -> tuple[float, int] | None:
        try:
            document = json.loads(self._path.read_text())
            right_ms, within_ms, boot_id = document["rightMs"], document["withinMs"], document["bootId"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None  # there is none yet, or it is torn: then the others tell
        is_whole = all(isinstance(value, int) for value in (right_ms, within_ms))
        return (right_ms, within_ms) if is_whole and self._boot_id and boot_id == self._boot_id else None


def _read_boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
