"""A minute without faults with every kind of job beside plain ones: which share of its fires starts late, by kind."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, WrongError, at_most
from bench.on_up import up
from bench.reading import all_records
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.schedules.schedule import dispatch_ms
from tests.support.etcd_server import VERSIONS, chosen_etcd, etcd_of, whole_version

SECONDS: Final = 60
LATE_MS: Final = 100
_SETTLES_S: Final = 5
_LEAST_SECONDS: Final = 8
_LIMIT_S: Final = 30
_LOOK_S: Final = 0.5
_PERIOD: Final = 4
"""A job of a kind fires every so many seconds, and there are as many of them: one fires each second."""
_PLAIN: Final = 4
"""So many plain ones fire each second."""

_KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "cron": {},
    "allow": {"overlap": "allow"},
    "queue": {"overlap": "queue"},
    "replace": {"overlap": "replace"},
    "after": {},
    "broadcast": {"broadcast": True},
    "jitter": {"jitterSeconds": 2},
    "two-slots": {"slots": 2, "priority": 5},
    "retried": {"command": "false", "retry": {"limit": 1, "delaySeconds": 0.5}},
}
"""What a kind has beside its name, its times, and `true` for a command."""
_LASTING: Final = ("skip", "allow", "queue", "replace")
"""Overlaps of jobs whose runs outlast the next fire. Those wait for their own lock, and are not counted."""


def figures(share: float) -> list[Figure]:
    """Of each version of etcd that is there, or of the one that ETCD names."""
    chosen = chosen_etcd()
    there = [chosen] if chosen else [binary for series in VERSIONS if (binary := etcd_of(series)) is not None]
    return [figure for binary in there for figure in _of(binary, max(_LEAST_SECONDS, round(SECONDS * share)))]


def _of(binary: Path, seconds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        late_ms = asyncio.run(_late_ms(Path(folder), binary, seconds))
    for kind in _KINDS:
        found = late_ms[kind]
        if not found:
            raise WrongError(f"no fire of the kind {kind!r} has a record")
        beyond = 100 * sum(late > LATE_MS for late in found) / len(found)
        note = f"of {len(found):,}; the latest {max(found)} ms"
        name = f"etcd {whole_version(binary)}, {kind}: beyond {LATE_MS} ms"
        yield Figure(name=name, value=beyond, unit="%", goal=at_most(1), note=note)


async def _late_ms(folder: Path, binary: Path, seconds: int) -> dict[str, list[int]]:
    """Of the first attempts of all fires that were planned within so many seconds, by kind."""
    async with up(folder, etcd=binary) as running:
        async with EtcdClient([running.etcd], user=running.etcd_user) as client:
            if (version := (await client.status()).version) != whole_version(binary):
                raise WrongError(f"etcron up has started etcd {version}")
        specs = {spec.name: spec for spec in _jobs()}
        await running.save(specs.values())
        from_ms = round((time.time() + _SETTLES_S) * 1000)
        to_ms = from_ms + seconds * 1000
        await asyncio.sleep(_SETTLES_S + seconds)
        until = time.monotonic() + _LIMIT_S
        while not (records := await all_records(running.http, running.url)) or not _all_there(records, to_ms):
            if time.monotonic() > until:
                raise WrongError("the records of the last fires cannot be read by now")
            await asyncio.sleep(_LOOK_S)
    found: dict[str, list[int]] = defaultdict(list)
    for record in records:
        kind = record["jobName"].rpartition(".")[0]
        if kind in _KINDS and from_ms <= record["planTime"] < to_ms and record["attempt"] == 1:
            if not record.get("startTime"):
                raise WrongError(f"{record['id']} did not start: {record['status']}, {record['err']}")
            found[kind].append(record["startTime"] - _due_ms(specs[record["jobName"]], record["planTime"]))
    return found


def _due_ms(spec: JobSpec, plan_ms: int) -> int:
    return dispatch_ms(spec.name, spec.schedule, spec.jitter_s, plan_ms) if spec.jitter_s else plan_ms


def _all_there(records: Sequence[Mapping[str, Any]], to_ms: int) -> bool:
    """Whether each plain job has a record that is beyond the time asked for."""
    beyond = {str(one["jobName"]) for one in records if one["planTime"] >= to_ms}
    return sum(name.startswith("plain") for name in beyond) == _PLAIN * _PERIOD


def _jobs() -> Iterator[JobSpec]:
    for kind, fields in _KINDS.items():
        for number in range(_PERIOD * (_PLAIN if kind == "plain" else 1)):
            second = number % _PERIOD
            times = {"every": f"{_PERIOD}s", "offset": f"{second}s"}
            if kind == "cron":
                times = {"cronExpr": f"{second}-59/{_PERIOD} * * * * * *"}
            elif kind == "after":
                times = {"after": f"{_PERIOD}s"}
            yield parse_job({"name": f"{kind}.{number}", "command": "true", **times, **fields})
    for overlap in _LASTING:
        yield parse_job({"name": f"lasting.{overlap}", "command": "sleep 1.4", "every": "1s", "overlap": overlap})
