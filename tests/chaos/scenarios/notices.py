"""Senders killed while notices come: ``python -m tests.chaos.scenarios.notices --events 1000 --faults 40 --seed 1``.

    two managers send to webhooks and by mail; notices come, and now and then something breaks, as drawn: a manager is
    killed (SIGKILL), or both, or frozen for longer than its lease; one kills itself between a server's answer and its
    note; the mail server breaks off in the middle of a mail; the log store is frozen for some seconds

Violations, and exit status 1: an event that was not told, or told by two messages; a message that came twice with
other content, or with no manager killed, frozen or woken between its two times.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path

from common.etcd import EtcdClient
from common.notices.channels import CHANNEL
from common.notices.events import Event
from common.notices.forms import Stored
from common.notices.notice import Notice, NoticeKind, NoticeState, Told, notice_id
from common.protocol.keys import Keys
from common.runlog import RunLog
from common.verdicts import EventKind
from tests.chaos.history import wall_ms
from tests.support.cluster import Cluster, Process, running_cluster
from tests.support.notices import MailServer, Receiver, receiving
from tests.support.waiting import wait_until

_KEYS = Keys()
_TOLD_WITHIN_S = 300.0
_LEASE_S = 3
_ADDRESSES = {"to": ["ann@example.org"], "from": "etcron@example.org"}


@dataclass(slots=True, eq=False)
class Story:
    """A cluster that tells, what it was given, and what arrived. Use :func:`telling`."""

    cluster: Cluster
    runlog: RunLog
    receiver: Receiver
    mails: MailServer
    channels: int
    notices: list[Notice] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    """When each was over, by the monotonic clock; those who were frozen count, too."""

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

    async def died(self, manager: Process, *, within_s: float = 60) -> None:
        """At its failpoint."""
        popen = manager.popen
        assert popen is not None
        await wait_until(lambda: popen.poll() is not None, description=f"{manager.name} is dead", timeout=within_s)
        manager.popen = None
        self.kills.append(time.monotonic())

    async def under_faults(self, *, events: int, faults: int, seed: int) -> None:
        """Notices come in small lots; between them something breaks, wherever the senders are."""
        drawn = random.Random(seed)
        faults_there_are = (
            self._kill, self._kill, self._kill_all, self._kill_itself, self._break_mail, self._freeze, self._stop,
        )  # fmt: skip
        for turn in range(faults):
            await self.put(events * (turn + 1) // faults - len(self.notices))
            seen = len(self.arrived())
            # Right behind an answer, mostly: there a note is due.
            await wait_until(partial(self._got_more_than, seen), description="messages arrive", timeout=90)
            await asyncio.sleep(drawn.random() / 10)
            await drawn.choice(faults_there_are)(drawn.choice(self.cluster.managers))
        await self.all_told()

    async def _kill(self, victim: Process) -> None:
        await self.restart(victim)
        self.kills.append(time.monotonic())

    async def _kill_all(self, victim: Process) -> None:
        for manager in self.cluster.managers:
            await manager.end(signal.SIGKILL)
            self.kills.append(time.monotonic())
        for manager in self.cluster.managers:
            await self.restart(manager)

    async def _kill_itself(self, victim: Process) -> None:
        await self._kill(victim)
        await self.restart(victim, failpoint="after_notice_sent:kill")
        await self.put(self.channels)
        # The other one may be faster each time.
        with suppress(AssertionError):
            await self.died(victim, within_s=15)
        await self.restart(victim)

    async def _stop(self, victim: Process) -> None:
        assert victim.popen is not None
        for number in (signal.SIGSTOP, signal.SIGCONT):
            self.kills.append(time.monotonic())
            victim.popen.send_signal(number)
            await asyncio.sleep(2 * _LEASE_S if number is signal.SIGSTOP else 0)

    async def _break_mail(self, victim: Process) -> None:
        self.mails.dies_in_data += 1

    async def _freeze(self, victim: Process) -> None:
        self.cluster.log_store.pause()
        await asyncio.sleep(8)
        self.cluster.log_store.resume()

    def arrived(self) -> list[tuple[str, bytes, float]]:
        """All messages: their ids, what they say, and when they came."""
        posted = [(got.headers["webhook-id"], got.raw, got.at) for got in self.receiver.got]
        return posted + [(mail.id, mail.content, mail.at) for mail in self.mails.mails]

    def _got_more_than(self, number: int) -> bool:
        return len(self.arrived()) > number

    async def all_told(self) -> None:
        """Every notice says that it was sent."""

        async def is_so() -> bool:
            counts = (await self.runlog.notices.counts()).by_state
            assert not counts[NoticeState.FAILED], "a notice has failed"
            return not counts[NoticeState.WAITING] and not counts[NoticeState.SENDING]

        await wait_until(is_so, description="all is told", timeout=_TOLD_WITHIN_S, at_most_every_s=0.5)

    async def violations(self) -> list[str]:
        """What is not as it should be."""
        found, by_id = list[str](), dict[str, tuple[bytes, float]]()
        for message, content, at in sorted(self.arrived(), key=itemgetter(2)):
            before, last = by_id.setdefault(message, (content, at))
            by_id[message] = (content, at)
            if before != content:
                found.append(f"{message} came with another content")
            if last != at and not any(last <= kill <= at for kill in self.kills):
                found.append(
                    f"{message} came once more {at - last:.1f} s later, and no manager was killed or frozen meanwhile"
                )
        told = Counter[str]()
        for notice in self.notices:
            there = await self.runlog.notices.get(notice.id)
            if there is None or there.message not in by_id:
                found.append(f"{notice.id} was not told")
            else:
                told[there.message] += 1
        totals = {got.headers["webhook-id"]: got.body["data"]["total"] for got in self.receiver.got}
        found += [f"{one} tells {n} events, and not {told[one]}" for one, n in totals.items() if told[one] != n]
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
        MailServer() as mails,
        running_cluster(directory, workers=0, managers=managers, flags_of=flags_of) as cluster,
    ):
        for manager in cluster.managers[managers_started or managers :]:
            await manager.end()
        async with EtcdClient([cluster.etcd.endpoint]) as etcd, RunLog(cluster.log_store.uri) as runlog:
            for number in range(channels):
                by_mail = {"kind": "email", "host": "127.0.0.1", "port": mails.port, "tls": "none"} | _ADDRESSES
                record = CHANNEL.read(by_mail if number % 2 else {"kind": "webhook", "url": receiver.url})
                await etcd.put(_KEYS.channel(f"c{number}"), CHANNEL.to_json(Stored(record=record)))
            yield Story(cluster, runlog, receiver, mails, channels)


async def _run(events: int, faults: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="etcron-notices-") as directory:
        async with telling(Path(directory), channels=40, managers=2) as story:
            await story.under_faults(events=events, faults=faults, seed=seed)
            ids = [message for message, _, _ in story.arrived()]
            twice = len(ids) - len(set(ids))
            said = f"{len(story.notices)} events, {len(set(ids))} messages, {twice} once more, {len(story.kills)} kills"
            print(said)  # noqa: T201
            violations = await story.violations()
            print(*violations, sep="\n")  # noqa: T201
            return bool(violations)


def main() -> int:
    """Run it, say what was seen; 1 where anything is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("events", 1000), ("faults", 40), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    return asyncio.run(_run(given.events, given.faults, given.seed))


if __name__ == "__main__":
    sys.exit(main())
