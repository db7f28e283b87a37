"""Senders killed while notices come: ``python -m tests.chaos.scenarios.notices --events 1000 --kills 40 --seed 1``.

    two managers send to webhooks; notices come, and now and then a manager is killed (SIGKILL) and started again

Violations, and exit status 1: an event that was not told; a message that came twice with other content, or of an event
that another message tells, too; more second ones than there were kills.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from common.etcd import EtcdClient
from common.notices.channels import CHANNEL
from common.notices.events import Event, EventKind
from common.notices.forms import Stored
from common.notices.notice import Notice, NoticeKind, NoticeState, Told, notice_id
from common.protocol.keys import Keys
from common.runlog import RunLog
from tests.chaos.history import wall_ms
from tests.support.cluster import Cluster, Process, running_cluster
from tests.support.notices import Receiver, receiving
from tests.support.waiting import wait_until

_KEYS = Keys()
_TOLD_WITHIN_S = 300.0
_LEASE_S = 3


@dataclass(slots=True, eq=False)
class Story:
    """A cluster that tells, what it was given, and what arrived. Use :func:`telling`."""

    cluster: Cluster
    runlog: RunLog
    receiver: Receiver
    channels: int
    notices: list[Notice] = field(default_factory=list)
    kills: int = 0

    async def put(self, number: int) -> list[Notice]:
        """So many more notices, of an event each, spread over the channels."""
        new = list[Notice]()
        for _ in range(number):
            count = len(self.notices) + len(new)
            channel, event = f"c{count % self.channels}", Event(kind=EventKind.FAILED, at_ms=wall_ms(), job=f"j{count}")
            new.append(
                Notice(
                    id=notice_id(str(count), channel), channel=channel, kind=NoticeKind.PROBLEM, created_ms=wall_ms(),
                    told=(Told(event=event),),
                )
            )  # fmt: skip
        self.notices += new
        await self.runlog.notices.put(new)
        return new

    async def restart(self, manager: Process, *, failpoint: str = "") -> None:
        """Killed, and started again."""
        if manager.popen is not None:
            await manager.end(signal.SIGKILL)
        manager.environ = {"ETCRON_FAILPOINT": failpoint} if failpoint else {}
        manager.start()

    async def died(self, manager: Process) -> None:
        """At its failpoint."""
        popen = manager.popen
        assert popen is not None
        await wait_until(lambda: popen.poll() is not None, description=f"{manager.name} is dead", timeout=60)
        manager.popen = None
        self.kills += 1

    async def under_kills(self, *, events: int, kills: int, seed: int) -> None:
        """Notices come in small lots; between them a manager is killed, wherever it is."""
        drawn = random.Random(seed)
        for turn in range(kills):
            await self.put(events * (turn + 1) // kills - len(self.notices))
            seen = len(self.receiver.got)
            # Right behind an answer, mostly: there a note is due.
            await wait_until(partial(self._got_more_than, seen), description="messages arrive", timeout=60)
            await asyncio.sleep(drawn.random() / 10)
            victim = drawn.choice(self.cluster.managers)
            await self.restart(victim)
            self.kills += 1
        await self.all_told()

    def _got_more_than(self, number: int) -> bool:
        return len(self.receiver.got) > number

    async def all_told(self) -> None:
        """Every notice says that it was sent."""

        async def is_so() -> bool:
            counts = (await self.runlog.notices.counts()).by_state
            assert not counts[NoticeState.FAILED], "a notice has failed"
            return not counts[NoticeState.WAITING] and not counts[NoticeState.SENDING]

        await wait_until(is_so, description="all is told", timeout=_TOLD_WITHIN_S, at_most_every_s=0.5)

    def violations(self) -> list[str]:
        """What is not as it should be."""
        found, by_id = list[str](), dict[str, bytes]()
        for got, message in zip(self.receiver.got, self.receiver.ids, strict=True):
            if by_id.setdefault(message, got.raw) != got.raw:
                found.append(f"{message} came with another content")
        told = Counter[str]()
        for got in {message: got for got, message in zip(self.receiver.got, self.receiver.ids, strict=True)}.values():
            told[got.body["data"]["channel"]] += got.body["data"]["total"]
        given = Counter(notice.channel for notice in self.notices)
        found += [f"{channel}: {told[channel]} of {n} told" for channel, n in given.items() if told[channel] != n]
        if (twice := len(self.receiver.ids) - len(by_id)) > self.kills:
            found.append(f"{twice} messages came once more, with {self.kills} kills")
        return found


@asynccontextmanager
async def telling(
    directory: Path, *, channels: int, managers: int, managers_started: int | None = None
) -> AsyncIterator[Story]:
    """Managers, and a receiver that all channels lead to."""
    flags = ("--notice-networks", "127.0.0.0/8", "--lease-ttl-seconds", str(_LEASE_S))
    flags_of = {f"manager-{number}": flags for number in range(1, managers + 1)}
    async with (
        receiving() as receiver,
        running_cluster(directory, workers=0, managers=managers, flags_of=flags_of) as cluster,
    ):
        for manager in cluster.managers[managers_started or managers :]:
            await manager.end()
        async with EtcdClient([cluster.etcd.endpoint]) as etcd, RunLog(cluster.log_store.uri) as runlog:
            for number in range(channels):
                record = CHANNEL.read({"kind": "webhook", "url": receiver.url})
                await etcd.put(_KEYS.channel(f"c{number}"), CHANNEL.to_json(Stored(record=record)))
            yield Story(cluster, runlog, receiver, channels)


async def _run(events: int, kills: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="etcron-notices-") as directory:
        async with telling(Path(directory), channels=40, managers=2) as story:
            await story.under_kills(events=events, kills=kills, seed=seed)
            twice = len(story.receiver.ids) - len(set(story.receiver.ids))
            print(f"{events} events, {len(set(story.receiver.ids))} messages, {twice} once more, {story.kills} kills")  # noqa: T201
            violations = story.violations()
            print(*violations, sep="\n")  # noqa: T201
            return bool(violations)


def main() -> int:
    """Run it, say what was seen; 1 where anything is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("events", 1000), ("kills", 40), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    return asyncio.run(_run(given.events, given.kills, given.seed))


if __name__ == "__main__":
    sys.exit(main())
