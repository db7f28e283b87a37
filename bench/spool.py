"""What a record costs in the spool: alone, and where many end together and share their fsync.

    python -m bench.spool [directory]

The directory (default: the one for temporary files) decides: what is measured is mostly its disk.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.verdicts import Verdict
from worker.record.spool import Spool

RECORDS = 2000
TOGETHER = (1, 10, 50, 500)
_PLAN_MS = 1_790_000_000_000


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Prints a line for each size of group; the figures."""
    where = arguments[0] if arguments else None
    results: dict[str, object] = {}
    for together in TOGETHER:
        with tempfile.TemporaryDirectory(dir=where) as directory:
            results[f"{together} together"] = figures = asyncio.run(_appended(Path(directory), together))
        print(
            f"{together:>4} together: {figures['ms']:.3f} ms and {figures['cpuMs']:.3f} ms of CPU a record, "
            f"{figures['fsyncs']:.3f} fsyncs a record, {figures['perSecond']:.0f} records a second"
        )
    return results


async def _appended(directory: Path, together: int) -> dict[str, float]:
    spool, fsync, fsyncs = Spool.open(directory), os.fdatasync, 0

    def counted(descriptor: int) -> None:
        nonlocal fsyncs
        fsyncs += 1
        fsync(descriptor)

    count = min(RECORDS, 200 * together)
    with mock.patch.object(os, "fdatasync", counted):
        wall, cpu = time.perf_counter(), time.process_time()
        for first in range(0, count, together):
            await asyncio.gather(*(spool.append(_record(number)) for number in range(first, first + together)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await spool.close()
    return {
        "ms": wall * 1000 / count, "cpuMs": cpu * 1000 / count, "fsyncs": fsyncs / count, "perSecond": count / wall,
    }  # fmt: skip


def _record(number: int) -> RunRecord:
    plan_ms = _PLAN_MS + number * 1000
    return RunRecord(
        run_id=RunId.planned("backup", plan_ms), status=Verdict.SUCCESS, command="echo hello", output="x" * 400,
        plan_ms=plan_ms, start_ms=plan_ms + 2, end_ms=plan_ms + 7, exit_code=0, worker="w1", output_bytes=400,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
