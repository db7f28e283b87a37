"""The names in the environment of a run by which its processes are known. For the guardian: no package is needed."""

from __future__ import annotations

from typing import Final

RESERVED: Final = "ETCRON_"
"""No job sets a variable that begins so."""
NOTICE: Final = "ETCRON_NOTICE_"
"""But for these: what a manager tells the job of a channel."""
RUN_MARK: Final = "ETCRON_RUN_ID"
INSTANCE_MARK: Final = "ETCRON_INSTANCE"
