"""Failpoints: places in the code at which a test has the process kill or stop itself; armed by one variable alone.

    ETCRON_FAILPOINT=after_claim:kill                    SIGKILL at the first hit
    ETCRON_FAILPOINT=after_claim:stop:3,after_ack:kill   SIGSTOP at the third (SIGCONT comes from outside); and another

A place is one line, ``if failpoints.armed: failpoints.hit("after_claim")``: one attribute test where nothing is armed.
Each that is armed acts once.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from common.errors import InvalidInputError, Problem

_log = logging.getLogger(__name__)

VARIABLE: Final = "ETCRON_FAILPOINT"
PLACES: Final[Mapping[str, str]] = {
    "before_claim": "a claim is about to be sent to etcd",
    "after_claim": "a claim has been carried out, and nothing else is done yet",
    "before_spawn": "a command is about to be started",
    "after_spawn": "a command has been started, and nobody but the kernel knows of it",
    "before_record": "a run has ended, and its record is not in the spool",
    "before_unlock": "a run's record is in the spool, and its lock is held",
    "after_unlock": "a run's lock is free, or its key says that it has ended",
    "after_ack": "the log store has acknowledged records, and their run keys are there",
    "before_outbox": "the log store has records, and not what they tell",
    "after_outbox": "the log store has what records tell, and the spool has not let go of them",
    "steward_before_verdict": "the steward has found a run lost, and not said so",
    "after_commit": "a manager's edit has been carried out, and is not answered",
    "before_notices": "what has happened is read from the outbox, and no notice is made of it",
    "after_notices": "notices are made of what has happened, and the alerts do not say so",
    "before_notice_sent": "a message is written down, and about to be sent",
    "after_notice_sent": "a server has taken a message, and that is not noted",
}
"""Every place, and what is so there."""
ACTIONS: Final[Mapping[str, signal.Signals]] = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_GRAMMAR: Final = re.compile(r"(?P<place>\w+):(?P<action>\w+)(?::(?P<hit>[1-9][0-9]{0,8}))?")

armed = False
"""Whether any failpoint is armed in this process."""


@dataclass(slots=True)
class _Armed:
    """What happens at a place, and after how many more hits."""

    action: str
    hits_left: int


_points: dict[str, _Armed] = {}


def arm(environ: Mapping[str, str]) -> None:
    """Arm what the variable says, and nothing else; loudly. InvalidInputError: it says something else than failpoints.

    Once logging is set up, and before anything is done.
    """
    global armed
    points = _read(environ)
    _points.clear()
    _points.update(points)
    armed = bool(_points)
    if armed:
        extra = {"action": "failpoints.armed", "failpoints": environ[VARIABLE]}
        _log.critical("FAILPOINTS ARE ARMED: this process will kill or stop itself. For tests only.", extra=extra)


def hit(place: str) -> None:
    """The process has come to this place. Ask `armed` first, so that it costs nothing."""
    assert place in PLACES, f"{place} is missing in the table of places"
    point = _points.get(place)
    if point is None:
        return
    point.hits_left -= 1
    if point.hits_left:
        return
    del _points[place]
    extra = {"action": "failpoint.hit", "failpoint": place}
    _log.critical("failpoint %s: %s", place, point.action, extra=extra)
    for handler in logging.getLogger().handlers:
        handler.flush()
    os.kill(os.getpid(), ACTIONS[point.action])


def _read(environ: Mapping[str, str]) -> dict[str, _Armed]:
    """By place."""
    points: dict[str, _Armed] = {}
    problems = []
    for text in filter(None, (part.strip() for part in environ.get(VARIABLE, "").split(","))):
        found = _GRAMMAR.fullmatch(text)
        if found is None or found["place"] not in PLACES or found["action"] not in ACTIONS:
            problems.append(_problem(f"{text!r} is no failpoint"))
        elif found["place"] in points:
            problems.append(_problem(f"{text!r}: there is another one at the same place"))
        else:
            points[found["place"]] = _Armed(found["action"], int(found["hit"] or 1))
    if problems:
        raise InvalidInputError(problems)
    return points


def _problem(message: str) -> Problem:
    remedy = (
        f"give place:action[:hit], several separated by commas; places: {', '.join(PLACES)}; "
        f"actions: {', '.join(ACTIONS)}; hit: the how many-th counts, 1 unless given"
    )
    return Problem(field=VARIABLE, message=message, remedy=remedy)
