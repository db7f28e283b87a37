"""What a worker's data directory holds, read before there is a loop: one would stand still with a disk that hangs."""

from __future__ import annotations

from dataclasses import dataclass

from common.configuration.config import WorkerConfig
from common.protocol.member import WorkerIdentity
from common.protocol.signatures import SigningMode
from worker.generations import Generations
from worker.identity import load_identity
from worker.record.spool import Spool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """Opened; from now on only the disk's thread (`spool.disk`) reads or writes in it."""

    identity: WorkerIdentity
    spool: Spool
    generations: Generations | None = None
    """None: no signatures are looked at."""


def open_data_directory(config: WorkerConfig) -> DataDirectory:
    """Of a directory that is locked. SpoolError, OSError: it cannot be used."""
    identity = load_identity(config.data_dir, name=config.worker_name)
    spool = Spool.open(config.data_dir / "spool", limit_bytes=config.spool_limit_bytes)
    signing = config.signing is not SigningMode.OFF
    generations = Generations.open(config.data_dir / "generations") if signing else None
    return DataDirectory(identity=identity, spool=spool, generations=generations)
