"""``etcron start worker``, with ``processes`` above 1: several full workers on one big machine, kept running by one.

    dataDir/                 process 1: what was the only worker's goes on
    dataDir/processes/2 ...  the others: each has a name, an instance, a spool and a guardian of its own
    dataDir/processes/       held (flock) by the supervisor; N.json is what each process is given

They share ``slots`` and ``spoolLimitBytes`` evenly, so that both keep meaning the machine. The supervisor starts one
that has died again, with back-off; it passes on the wish to stop and to hurry, and ends when all have ended. If it is
killed, the kernel kills them, and their guardians end what ran. etcd takes each for a worker like any other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from cli.errors import CommandError, ExitStatus
from cli.processes.children import AFTER_GRACE_S, at_once, program, without_configuration
from cli.processes.data_dir import write_privately
from cli.processes.supervisor import Child, ChildSpec, reaping
from common.configuration.config import WorkerConfig, file_object
from common.errors import ConfigError, Problem
from common.process.lifecycle import Stop, all_ended, run, run_loops
from common.process.logs import configure_logging
from common.protocol.member import is_worker_name
from worker.identity import DirectoryTakenError, locked_directory
from worker.record.spool import Spool, SpoolError

_log = logging.getLogger(__name__)

LABEL: Final = "process"
"""Tells the workers of one machine apart: a broadcast job that asks for ``process=1`` runs once a machine."""
_LEAST_SPOOL_BYTES: Final = 16 * 2**20


def run_processes(config: WorkerConfig) -> int:
    """Run the workers until it is to stop; the exit status is as a worker's. ConfigError as `plan_workers`."""
    workers = plan_workers(config)
    configure_logging(config.log_level, config.log_format)
    for note in config.notes:
        _log.warning("%s", note, extra={"action": "config.note"})
    home = config.data_dir / "processes"
    try:
        with locked_directory(home):
            _say_what_is_left(home, len(workers))
            return run(lambda stop: _keep(workers, home, stop), passed_on=(CommandError,))
    except DirectoryTakenError as error:
        raise CommandError(str(error), ExitStatus.CONFLICT) from error
    except OSError as error:
        raise CommandError(f"dataDir cannot be used: {error}; name another one", ExitStatus.CONFLICT) from error


def plan_workers(config: WorkerConfig) -> list[WorkerConfig]:
    """The configuration of each process, the first one's first. ConfigError where it cannot be shared out."""
    count, problems = config.processes, list[Problem]()
    if config.slots < count:
        message = f"{config.slots} cannot be shared by {count} processes"
        problems.append(Problem(field="slots", message=message, remedy="give at least as many slots as processes"))
    longest = _name(config, count)
    if longest is not None and not is_worker_name(longest):
        message = f"{longest!r}, as the last process would be called, is longer than 64 characters"
        problems.append(Problem(field="workerName", message=message, remedy="give a shorter name, or none"))
    if problems:
        raise ConfigError(problems)
    slots, more = divmod(config.slots, count)
    spool_bytes = max(_LEAST_SPOOL_BYTES, config.spool_limit_bytes // count)
    return [
        replace(
            config, processes=1, worker_name=_name(config, number),
            data_dir=config.data_dir if number == 1 else config.data_dir / "processes" / str(number),
            slots=slots + (number <= more), spool_limit_bytes=spool_bytes,
            labels={LABEL: str(number), **config.labels},
            metrics_port=config.metrics_port and config.metrics_port + number - 1,
        )
        for number in range(1, count + 1)
    ]  # fmt: skip


def _name(config: WorkerConfig, number: int) -> str | None:
    """None: each makes its own once, and keeps it."""
    if config.worker_name is None or number == 1:
        return config.worker_name
    return f"{config.worker_name}-{number}"


def say_what_is_left_to_one(config: WorkerConfig) -> None:
    """The same for a worker that is one process now. Nothing while other processes have the directory."""
    configure_logging(config.log_level, config.log_format)
    home = config.data_dir / "processes"
    with suppress(DirectoryTakenError, OSError), locked_directory(home):
        _say_what_is_left(home, 1)


def _say_what_is_left(home: Path, count: int) -> None:
    for told, records in left_behind(home, count=count, remedy="start once with processes"):
        _log.warning("%s", told, extra={"action": "processes.left", "records": records})


def left_behind(home: Path, *, prefix: str = "", count: int, remedy: str) -> Iterator[tuple[str, int]]:
    """Workers that there were, and are not any more, may have records that the log store never got: what to say of
    each, and how many.
    """
    for directory in sorted(home.glob(f"{prefix}*")):
        number = directory.name.removeprefix(prefix)
        if not number.isdecimal() or int(number) <= count or not (directory / "spool").is_dir():
            continue
        try:
            waiting = asyncio.run(_waiting_in(directory / "spool"))
        except SpoolError as error:
            yield str(error), 0
            continue
        if waiting:
            yield f"{directory} holds {waiting} records that were not delivered: {remedy} {number}", waiting


async def _waiting_in(directory: Path) -> int:
    spool = Spool.open(directory)
    try:
        return spool.pending
    finally:
        await spool.close()


async def _keep(workers: Sequence[WorkerConfig], home: Path, stop: Stop) -> None:
    children = [Child(_spec(worker, number, home), _say) for number, worker in enumerate(workers, 1)]
    extra = {"action": "processes.started", "processes": len(children)}
    _log.info("%s workers on this machine", len(children), extra=extra)
    try:
        for child in children:
            await child.start()
        loops = {f"keep {child.spec.name}": child.keep_running for child in children}
        await run_loops(stop, {**loops, **reaping(children)})
    finally:
        await all_ended(child.stop(stop.hurry) for child in children)


def _spec(worker: WorkerConfig, number: int, home: Path) -> ChildSpec:
    config = home / f"{number}.json"
    write_privately(config, file_object(worker))
    return ChildSpec(
        name=f"worker process {number}",
        command=program("worker", config),
        environ=without_configuration(),
        log=None,
        is_ready=at_once,
        hopeless=int(ExitStatus.USAGE),
        stop_within_s=worker.shutdown_grace_s + AFTER_GRACE_S,
    )


def _say(line: str) -> None:
    _log.warning("%s", line, extra={"action": "processes.child"})
