"""Process groups that outlive their runs, written down in the data directory: the worker's next life knows of them.

The number of a group is given to no other while a process lives in it. It says nothing after a boot of the machine,
nor in another namespace of process ids (another container), so the file names both. Which runs are recorded stays true.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from worker.machine.processes import all_processes

FILE: Final = "ending.json"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftGroup:
    """A process group of a run that could not be ended."""

    run: str
    """The run's id."""
    leader: int
    """The process id that names the group."""
    since_ms: int
    """Since when it is known that the group cannot be ended."""
    leader_started: int | None = None
    """Clock ticks since boot, of a leader that has not exited; None: it has, and another of its number is not it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftGroups:
    """What a file says."""

    groups: Sequence[LeftGroup] = ()
    recorded: frozenset[str] = frozenset()
    """Runs whose worker has made their records, and not freed their locks yet: each record is in the spool or in the
    log store, or on the way, whatever has become of the groups."""


def living_in(groups: Collection[LeftGroup]) -> Mapping[LeftGroup, Sequence[int]]:
    """The ids of the processes that live in each, zombies left out. OSError: /proc cannot be read. Blocks."""
    wanted = defaultdict[int, list[LeftGroup]](list)  # several runs may share one, by the marks that they show
    for group in groups:
        wanted[group.leader].append(group)
    living: dict[LeftGroup, list[int]] = {group: [] for group in groups}
    given_away = set()
    for process in all_processes():
        for group in wanted.get(process.group, ()):
            if process.pid == group.leader and process.started != group.leader_started:
                given_away.add(group)
            elif not process.dead:
                living[group].append(process.pid)
    return {group: [] if group in given_away else pids for group, pids in living.items()}


def read_left(directory: Path) -> LeftGroups:
    """What was written down, the groups only where this boot of the machine did. OSError: the disk cannot be read."""
    try:
        document = json.loads((directory / FILE).read_text())
        groups = [LeftGroup(**group) for group in document["groups"]] if document["machine"] == _machine() else []
        return LeftGroups(groups=groups, recorded=frozenset(document["recorded"]))
    except FileNotFoundError:
        return LeftGroups()
    except (ValueError, LookupError, TypeError, RecursionError):
        return LeftGroups()  # only a worker writes it, and whole: a user has changed it


def write_left(directory: Path, left: LeftGroups) -> None:
    """Instead of what was there; whole and durably, or not at all. OSError: the disk does not take it."""
    path = directory / FILE
    if not left.groups and not left.recorded:
        path.unlink(missing_ok=True)
        return
    beside = path.with_suffix(".new")
    document = {
        "machine": _machine(), "groups": [asdict(group) for group in left.groups], "recorded": sorted(left.recorded),
    }  # fmt: skip
    try:
        with beside.open("w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


@cache
def _machine() -> str:
    """Which boot of the machine this is, and which namespace of process ids."""
    return f"{_BOOT_ID.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
