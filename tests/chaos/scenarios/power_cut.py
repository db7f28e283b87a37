"""The power of the embedded log store cut while records and outbox documents come in: ``--cuts 20``.

It lies in a file system that forgets at each cut what was not synced, or has a random part of that
(:mod:`.forgetful_disk`, which says what it needs). What was acknowledged has to be there when it is back. Violations,
and exit status 1: a record or an outbox document that was acknowledged and is not there, or is another than it was.

With ``--lies`` the disk says of everything that it is synced, and forgets it: then there have to be violations, or
this scenario would find none.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from common.errors import UnavailableError
from common.runlog import RunLog
from tests.chaos.scenarios.log_store_killed import Writing
from tests.support.etcd_server import DYING_WITH_PARENT
from tests.support.log_store import LogStoreServer
from tests.support.waiting import wait_until

_WRITERS = 3
_LONGEST_S = 3.0


@asynccontextmanager
async def _powered(disk: Path, mount: Path, *, lies: bool) -> AsyncIterator[subprocess.Popen[bytes]]:
    """The disk is mounted, until whoever gets it has cut its power."""
    program = [sys.executable, "-m", "tests.chaos.scenarios.forgetful_disk", str(disk), str(mount)]
    process = subprocess.Popen([*DYING_WITH_PARENT, *program, *(["--lies"] if lies else [])])
    try:
        await wait_until(lambda: process.poll() is not None or mount.is_mount(), description="the disk is mounted")
        assert process.poll() is None, "the disk cannot be mounted (root, mfusepy, FUSE_LIBRARY_PATH?)"
        yield process
    finally:
        process.kill()
        process.wait()
        subprocess.run(["umount", "--lazy", str(mount)], check=False)


async def _cut(directory: Path, cuts: int, *, lies: bool) -> list[str]:
    disk, mount, wrong = directory / "disk", directory / "log-store", list[str]()
    disk.mkdir()
    mount.mkdir()
    server = LogStoreServer(mount)
    async with RunLog(server.uri, connect_timeout_ms=1_000) as runlog:
        writing = Writing(runlog)
        for cut in range(1, cuts + 1):
            how = random.choice((signal.SIGKILL, signal.SIGTERM))
            async with _powered(disk, mount, lies=lies) as power:
                await server.start()
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(_WRITERS):
                        tasks.create_task(writing.run())
                    await asyncio.sleep(random.uniform(0.05, _LONGEST_S))
                    power.send_signal(how)
                    await wait_until(lambda: power.poll() is not None, description="the power is cut")
                    await server.kill()
            async with _powered(disk, mount, lies=lies):
                await server.start()
                try:
                    wrong = await writing.lost()
                except UnavailableError as error:  # what is left is no store any more
                    wrong = [str(error)]
                await server.kill()
            acknowledged = f"{len(writing.records):,} records and {writing.told:,} documents acknowledged"
            sys.stdout.write(f"cut {cut}, {how.name}: {acknowledged}, {len(wrong)} not there\n")
            sys.stdout.flush()
            if wrong:
                break
    return wrong


def main() -> int:
    """Run it, say what was seen; 1 where anything that was acknowledged is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--lies", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="etcron-power-cut-") as directory:
        wrong = asyncio.run(_cut(Path(directory), given.cuts, lies=given.lies))
    for one in wrong[:20]:
        sys.stdout.write(f"VIOLATION: {one}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
