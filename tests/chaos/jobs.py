"""The jobs of a chaos run: every overlap and misfire policy, retry, after, broadcast, timeouts; all leave evidence."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.chaos.evidence import LINE

_HELPER = Path(__file__).with_name("evidence.py")
_IN_A_SHELL = _HELPER.with_suffix(".sh")
OVERLAPS = ("skip", "allow", "queue", "replace")
MISFIRES = ("skip", "latest", "all")
MACHINE = "machine"
"""The label of each worker that names it."""
RELABELLED = ("relabelled-jitter", "relabelled-queue")
BLOCKED = ("blocked-skip", "blocked-queue", "blocked-replace")
NEVER_LOST = "never-lost-"
"""So begin the names of those whose runs only users give up, wherever they run."""
_LEAP_YEAR = [date(2000, 1, 1) + timedelta(days=number) for number in range(366)]
COSTLY: dict[str, Any] = {
    "name": "costly", "command": ["true"],
    "cronExpr": [*(f"*/{step} * * 1-31/2 * * *" for step in range(2, 21)), "0 0 0 2 1 * 2199"],
    "calendar": {"exclude": [f"{day:%m-%d}" for day in _LEAP_YEAR if day.day % 2]},
}  # fmt: skip
"""All its fires but one in 2199 are on days that its calendar closes."""

Spec = dict[str, Any]


def command(evidence: Path, *manners: str, seconds: float = 0.0, fail_below: int = 0) -> list[str]:
    """A command that leaves evidence and lives for so long; its manners are those of ``evidence.py``."""
    return [sys.executable, "-I", "-S", str(_HELPER), str(evidence), str(seconds), str(fail_below), *manners]


def shell_command(evidence: Path, *, seconds: float = 0.0, fail_below: int = 0) -> list[str]:
    """The same without manners, by the shell alone: to start a Python takes six times as long.

    A shell has the machine's clock whatever it inherits, so where workers have clocks of their own it shows nothing.
    """
    # Of several the greatest: another process may have had the processor between the two readings.
    behind_ns = max(time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) for _ in range(5))
    manner = (str(evidence), str(float(seconds)), str(fail_below), str(behind_ns), LINE)
    return ["/bin/bash", str(_IN_A_SHELL), *manner]


def chaos_jobs(evidence: Path, now: datetime | None = None) -> list[Spec]:
    """All of them, with names that say what they are."""
    now = now or datetime.now(UTC)
    return [
        _with_defaults(evidence, spec)
        for spec in (*_policies(evidence), *_kinds(evidence), *_manners(evidence), *_once(evidence, now))
    ]


def edited_jobs(evidence: Path) -> list[Spec]:
    """Those that users edit, pause, delete and make again while they fire."""
    return [
        _with_defaults(evidence, {
            "name": f"edited-{number}", "command": command(evidence, seconds=(number % 3) * 0.8),
            "every": f"{1 + number % 3}s", "overlap": OVERLAPS[number % 4], "misfire": {"policy": MISFIRES[number % 3]},
        })
        for number in range(6)
    ]  # fmt: skip


def pinned_jobs(evidence: Path, workers: Sequence[str]) -> list[Spec]:
    """Of each worker: what nobody else can take, a short one, and one whose lock only users pass on when it is gone."""
    short, lasting = command(evidence), command(evidence, seconds=25)
    specs = []
    for number, worker in enumerate(workers):
        pinned = {"workers": {MACHINE: worker}}
        misfire = {"policy": MISFIRES[number % 3]}
        specs.append({"name": f"pinned-{worker}", "command": short, "every": "4s", "misfire": misfire, **pinned})
        patient = {"every": "20s", "lostAfterSeconds": "never"}
        specs.append({"name": f"pinned-never-{worker}", "command": lasting, **patient, **pinned})
    return [_with_defaults(evidence, spec) for spec in specs]


def load_jobs(evidence: Path, fires_per_second: int) -> list[Spec]:
    """So many jobs that are due each second."""
    quick = shell_command(evidence)
    return [
        _with_defaults(evidence, {"name": f"load-{number:04}", "command": quick, "every": "1s"})
        for number in range(fires_per_second)
    ]


def _with_defaults(evidence: Path, spec: Spec) -> Spec:
    """Lost soon, so that a worker can be frozen for longer; and marked, so that the harness can clear it away."""
    misfire = {"graceSeconds": 10, "windowSeconds": 40, "limit": 5, **spec.pop("misfire", {})}
    env = {"CHAOS_GROUND": f"{evidence.parent}/"}
    return {"lostAfterSeconds": 20, "killGraceSeconds": 1, "env": env, **spec, "misfire": misfire}


def _policies(evidence: Path) -> Iterator[Spec]:
    """Each overlap with each misfire policy: runs that are short, and runs that outlast the next fire."""
    for row, overlap in enumerate(OVERLAPS):
        for column, policy in enumerate(MISFIRES):
            common = {"overlap": overlap, "misfire": {"policy": policy}}
            step = 3 + (row + column) % 4
            yield {"name": f"short-{overlap}-{policy}", "command": command(evidence), "every": f"{step}s", **common}
            yield {
                "name": f"slow-{overlap}-{policy}", "command": command(evidence, seconds=6.5), "every": "5s",
                "offset": f"{row}s", **common,
            }  # fmt: skip


def _kinds(evidence: Path) -> Iterator[Spec]:
    """Everything else that a job can ask for."""
    quick = command(evidence)
    flaky = command(evidence, fail_below=3)
    for overlap in OVERLAPS[:3]:
        retry = {"limit": 3, "delaySeconds": 0.5, "backoff": 1.5}
        spec = {"name": f"retry-{overlap}", "command": flaky, "every": "10s", "overlap": overlap, "retry": retry}
        yield {**spec, "onWorkerLost": "rerun"}
    lasting = command(evidence, seconds=25)
    yield {"name": "long-rerun", "command": lasting, "every": "30s", "onWorkerLost": "rerun"}
    for overlap in ("skip", "queue", "replace"):
        # Longer than a run may be out of touch: only its guardian ends it in time, where its worker is frozen.
        patient = {"every": "20s", "offset": f"{len(overlap)}s", "overlap": overlap}
        yield {"name": f"lasting-{overlap}", "command": command(evidence, seconds=55), **patient}
    yield {"name": "long-queue", "command": lasting, "every": "20s", "overlap": "queue"}
    yield {"name": "timeout", "command": command(evidence, seconds=30), "every": "10s", "timeoutSeconds": 3}
    stubborn = command(evidence, "stubborn", seconds=30)
    yield {"name": "stubborn", "command": stubborn, "every": "15s", "timeoutSeconds": 2}
    yield {"name": "replaced-stubborn", "command": stubborn, "every": "9s", "overlap": "replace"}
    for number in (1, 2, 3):
        yield {"name": f"after-{number}", "command": command(evidence, seconds=number - 1), "after": f"{number}s"}
    yield {"name": "after-rerun", "command": command(evidence, seconds=4), "after": "1s", "onWorkerLost": "rerun"}
    yield {"name": "broadcast", "command": quick, "every": "6s", "broadcast": True}
    yield {"name": "broadcast-slow", "command": command(evidence, seconds=4), "every": "7s", "broadcast": True}
    yield {"name": "cron-step", "command": quick, "cronExpr": "*/4 * * * * * *"}
    yield {
        "name": "cron-list",
        "command": quick,
        "cronExpr": "1,2,3,31,32,33 * * * * * *",
        "misfire": {"policy": "all"},
    }
    yield {"name": "jitter", "command": quick, "every": "5s", "jitterSeconds": 3}
    yield {"name": "two-slots", "command": command(evidence, seconds=1), "every": "4s", "slots": 2, "priority": 5}
    for overlap in ("skip", "queue"):
        patient = {"every": "10s", "overlap": overlap, "lostAfterSeconds": "never"}
        yield {"name": f"{NEVER_LOST}{overlap}", "command": command(evidence, seconds=35), **patient}
    jittered, queued = RELABELLED
    yield {"name": jittered, "command": quick, "every": "5s", "jitterSeconds": 4}
    yield {"name": queued, "command": command(evidence, seconds=3), "every": "2s", "overlap": "queue"}
    for number, name in enumerate(BLOCKED):
        policy, overlap = {"policy": MISFIRES[number]}, name.removeprefix("blocked-")
        yield {"name": name, "command": command(evidence, seconds=number), "every": "2s", "overlap": overlap,
               "misfire": policy}  # fmt: skip
    yield {"name": "asked", "command": command(evidence, seconds=1), "every": "600s"}
    yield {"name": "asked-allow", "command": command(evidence, seconds=1), "every": "600s", "overlap": "allow"}
    yield {"name": "asked-flaky", "command": flaky, "every": "600s", "retry": {"limit": 2, "delaySeconds": 1}}


def _manners(evidence: Path) -> Iterator[Spec]:
    """Commands that print too much, or what is no text; that leave something behind; that give up their streams."""
    yield {"name": "loud", "command": command(evidence, "loud"), "every": "11s", "outputLimitBytes": 20_000}
    yield {"name": "raw", "command": command(evidence, "raw"), "every": "13s", "overlap": "allow"}
    yield {"name": "mute", "command": command(evidence, "mute", seconds=2), "every": "6s"}
    yield {"name": "departs", "command": command(evidence, "departs", seconds=1), "every": "8s"}
    departing = command(evidence, "departs", "stubborn", seconds=30)
    yield {"name": "departs-timeout", "command": departing, "every": "14s", "timeoutSeconds": 2}
    shell = f"{shlex.join(command(evidence))}; {shlex.join(command(evidence, 'background', seconds=40))} &"
    yield {"name": "outlives-its-shell", "command": shell, "every": "9s"}


def mounted_jobs(mount: Path, evidence: Path) -> list[Spec]:
    """Those that start in a directory whose mount hangs now and then, with each overlap."""
    return [
        _with_defaults(evidence, {
            "name": f"mounted-{overlap}", "command": command(evidence), "every": f"{3 + number}s", "overlap": overlap,
            "workdir": str(mount), "timeoutSeconds": 4,
        })
        for number, overlap in enumerate(OVERLAPS)
    ]  # fmt: skip


def lingering_jobs(place: Path, evidence: Path) -> list[Spec]:
    """Each run has a child that touches this place: while that hangs, nobody can end the child."""
    specs = []
    for number, overlap in enumerate(("skip", "queue", "replace")):
        shell = (
            f"{shlex.join(command(evidence, 'lingers', str(place / 'x')))} & {shlex.join(command(evidence, seconds=1))}"
        )
        specs.append({"name": f"lingers-{overlap}", "command": shell, "every": f"{4 + number}s", "overlap": overlap})
    return [_with_defaults(evidence, spec) for spec in specs]


def _once(evidence: Path, now: datetime) -> Iterator[Spec]:
    for seconds in (40, 70):
        at = (now + timedelta(seconds=seconds)).replace(microsecond=0)
        yield {"name": f"once-{seconds}", "command": command(evidence), "at": at.isoformat()}
