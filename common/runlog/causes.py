"""What runs that did not go well have in common, in a few words by which they are counted together and asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.protocol.run import OUT_OF_TOUCH, SHUTDOWN
from common.verdicts import Verdict

_LONGEST = 200


def cause_of(document: Mapping[str, Any]) -> str:
    """``failed: exit status 3``, ``lost: worker gone``, ``timeout``; empty of a run that succeeded.

    Details that differ from run to run (what stands behind a colon, why a user killed it) are no part of it.
    """
    status = str(document.get("status", ""))
    if status in ("", Verdict.SUCCESS):
        return ""
    detail = _detail(status, document)
    return f"{status}: {detail}"[:_LONGEST] if detail else status


def _detail(status: str, document: Mapping[str, Any]) -> str:
    reason = str(document.get("reason") or "").partition(":")[0]
    if status == Verdict.FAILED:
        if (code := document.get("exitCode")) is not None:
            return f"exit status {code}"
        if (signal := document.get("signal")) is not None:
            return f"signal {signal}"
        return str(document.get("err") or reason).strip().partition("\n")[0]
    if status == Verdict.KILLED:  # a user's reason is no cause
        return reason if reason in (SHUTDOWN, OUT_OF_TOUCH) else ""
    return "" if status == Verdict.TIMEOUT else reason
