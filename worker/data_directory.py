"""What a worker's data directory holds, read before there is a loop: one would stand still with a disk that hangs."""

from __future__ import annotations

from dataclasses import dataclass

from common.clock import Clock
from common.configuration.config import WorkerConfig
from common.protocol.member import Identity
from worker.clock_memory import ClockMemory
from worker.identity import load_identity
from worker.spooling.spool import Spool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """Opened; from now on only the disk's thread (`spool.disk`) reads or writes in it."""

    identity: Identity
    spool: Spool
    clock_memory: ClockMemory


def open_data_directory(config: WorkerConfig, clock: Clock) -> DataDirectory:
    """Of a directory that is locked. SpoolError, OSError: it cannot be used."""
    identity = load_identity(config.data_dir, name=config.worker_name)
    spool = Spool.open(config.data_dir / "spool", limit_bytes=config.spool_limit_bytes)
    return DataDirectory(
        identity=identity, spool=spool, clock_memory=ClockMemory(config.data_dir, clock, in_turn=spool.disk.begin)
    )  # fmt: skip
