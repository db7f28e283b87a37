"""The embedded log store killed (kill -9) while records and outbox documents come in: ``--kills 50``.

What it has acknowledged has to be there when it is back, each time. Violations, and exit status 1: a record or an
outbox document that was acknowledged and is not there, or is not as it was written.

With ``--strace`` it is not killed: no answer may be sent while anything written to SQLite's log is not synced.
That is what a power cut asks for; whether the disk keeps what it has synced is the disk's.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from common.errors import UnavailableError
from common.notices.events import Event, events_of
from common.protocol.run import RunRecord
from common.runlog import RunLog, outbox_documents
from common.verdicts import Verdict
from tests.support.log_store import LogStoreServer
from tests.support.records import record

_A_BATCH = 20
_WRITERS = 3
_LONGEST_S = 1.0
_OLD_ONES = 1_000
_READ_S = 60.0


class Writing:
    """Writers, and what they were told is there."""

    def __init__(self, runlog: RunLog) -> None:
        self._runlog = runlog
        self._numbers = itertools.count()
        self.records: dict[str, RunRecord] = {}
        self.documents: dict[str, tuple[Event, ...]] = {}
        self.told = 0
        self._seen = 0

    async def run(self) -> None:
        """Batch after batch, until the store is away."""
        with suppress(UnavailableError):
            while True:
                numbers = itertools.islice(self._numbers, _A_BATCH)
                batch = [record(number, status=Verdict.FAILED, err=f"exit status {number}") for number in numbers]
                await self._runlog.write(batch)
                self.records |= {str(one.run_id): one for one in batch}
                told = outbox_documents([event for one in batch for event in events_of(one)], batch[0].plan_ms)
                await self._runlog.outbox.put(told)
                self.documents |= {one.id: one.events for one in told}
                self.told += len(told)

    async def lost(self) -> list[str]:
        """What was acknowledged and is not there, or is another: of what came since the last look all, else some."""
        new, old = self._unseen(self.records), random.sample([*self.records], min(len(self.records), _OLD_ONES))
        looked_at = {name: self.records[name] for name in (*new, *old)}
        found = await self._runlog.find([one.run_id for one in looked_at.values()], deadline_seconds=_READ_S)
        wrong = [name for name, one in looked_at.items() if name not in found or found[name].err != one.err]
        told = await self._runlog.outbox.read(1 << 30, most_events=1 << 60, deadline_seconds=_READ_S)
        there = {one.id: one.events for one in told}
        wrong += [name for name, events in self.documents.items() if there.get(name) != events]
        self._seen, self.documents = len(self.records), {}
        await self._runlog.outbox.delete([*there], deadline_seconds=_READ_S)
        return wrong

    def _unseen(self, names: Iterable[str]) -> Iterable[str]:
        return itertools.islice(names, self._seen, None)


async def _killed(directory: Path, kills: int) -> list[str]:
    server, wrong = LogStoreServer(directory / "log-store"), list[str]()
    await server.start()
    try:
        async with RunLog(server.uri, connect_timeout_ms=1_000) as runlog:
            writing = Writing(runlog)
            for kill in range(1, kills + 1):
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(_WRITERS):
                        tasks.create_task(writing.run())
                    await asyncio.sleep(random.uniform(0.05, _LONGEST_S))
                    await server.kill()
                await server.start()
                wrong = await writing.lost()
                acknowledged = f"{len(writing.records):,} records and {writing.told:,} documents acknowledged"
                _say(f"kill {kill}: {acknowledged}, {len(wrong)} not there")
                if wrong:
                    break
    finally:
        server.destroy()
    return wrong


async def _traced(directory: Path) -> list[str]:
    """Writes under strace for a while; the answers that followed a write that was not synced."""
    server = LogStoreServer(directory / "log-store")
    await server.start()
    trace = directory / "trace"
    try:
        calls = "trace=pwrite64,write,fsync,fdatasync,sendto,sendmsg"
        tracing = subprocess.Popen(["strace", "-f", "-y", "-s", "0", "-e", calls, "-o", trace, "-p", str(server.pid)])
        async with RunLog(server.uri) as runlog:
            await runlog.ping()
            await asyncio.sleep(1)
            writing = Writing(runlog)
            task = asyncio.create_task(writing.run())
            await asyncio.sleep(5)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        tracing.terminate()
        tracing.wait()
    finally:
        server.destroy()
    syncs, answers, wrong = _judged(trace.read_text().splitlines())
    _say(f"{len(writing.records):,} records acknowledged; {answers:,} answers, {syncs:,} syncs of the log")
    assert answers > len(writing.records) / _A_BATCH, "the trace shows the answers"
    return wrong


def _judged(lines: list[str]) -> tuple[int, int, list[str]]:
    """How many syncs and answers there were, and the answers while something written to the log was not synced."""
    syncs = answers = 0
    unsynced, wrong = False, list[str]()
    for line in _whole(lines):
        if re.search(r"pwrite64\(\d+<[^>]*-wal>", line):
            unsynced = True
        elif re.search(r"(fsync|fdatasync)\(\d+<[^>]*-wal>\).*= 0", line):
            unsynced, syncs = False, syncs + 1
        elif re.search(r"(sendto|sendmsg|write)\(\d+<(socket|TCP)[^>]*>", line):
            answers += 1
            if unsynced:
                wrong.append(line[:120])
    return syncs, answers, wrong


def _whole(lines: list[str]) -> Iterator[str]:
    """Each call where it ends; a write where it begins."""
    begun: dict[str, str] = {}
    for line in lines:
        pid, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[pid] = call.removesuffix("<unfinished ...>")
            if call.startswith("pwrite64"):
                yield call
        elif call.startswith("<... "):
            yield begun.pop(pid, "") + call.partition("resumed>")[2]
        else:
            yield call


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run it, say what was seen; 1 where anything that was acknowledged is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--strace", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="etcron-log-store-killed-") as directory:
        run = _traced(Path(directory)) if given.strace else _killed(Path(directory), given.kills)
        wrong = asyncio.run(run)
    for one in wrong[:20]:
        _say(f"VIOLATION: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
