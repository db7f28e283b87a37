"""Senders killed while notices come: ``python -m tests.chaos.scenarios.notices --events 1000 --faults 40 --seed 1``.

    two managers send to webhooks and by mail; notices come, and now and then something breaks, as drawn: a manager is
    killed (SIGKILL), or both, or frozen for longer than its lease; one kills itself between a server's answer and its
    note; the mail server breaks off in the middle of a mail; the log store is frozen for some seconds

Violations, and exit status 1: an event that was not told, or told by two messages; a message that came with other
content, or once more than its channel was taken over while it was on its way; a channel that was taken over from a
manager which was not killed or frozen, and whose lease had not gone.

A manager logs that it takes a channel over before it sends anything there, and the log store has until when a message
was on its way: so it does not matter how late this process, which has its own things to do, sees a message come.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from common.errors import UnavailableError
from common.etcd import EtcdClient
from common.instants import to_ms
from common.notices.channels import CHANNEL
from common.notices.events import Event
from common.notices.forms import Stored
from common.notices.notice import AlertedEvent, Notice, NoticeKind, NoticeState, notice_id
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
_OPENED = re.compile(r"session \S+/beats/(\S+) opened")
_LAPSED = re.compile(r"session \S+/beats/(\S+) is over: the lease is gone")
_TAKEN_OVER = re.compile(r"^(\S+) .* channel (\S+) is taken over from (\S+), which is gone", re.MULTILINE)
_T = TypeVar("_T")


class TakenOver(NamedTuple):
    """A manager says that it takes a channel from another one, which is gone."""

    at_ms: int
    channel: str
    gone: str


@dataclass(slots=True, eq=False)
class Story:
    """A cluster that tells, what it was given, and what arrived. Use :func:`telling`."""

    cluster: Cluster
    runlog: RunLog
    receiver: Receiver
    mails: MailServer
    channels: int
    notices: list[Notice] = field(default_factory=list)
    harmed: set[str] = field(default_factory=set)
    """The managers that were killed or frozen, by the names that others know them by: a new one at each start."""

    async def put(self, number: int) -> list[Notice]:
        """So many more notices, of an event each, spread over the channels."""
        new = list[Notice]()
        for _ in range(number):
            count = len(self.notices) + len(new)
            channel, event = f"c{count % self.channels}", Event(kind=EventKind.FAILED, at_ms=wall_ms(), job=f"j{count}")
            new.append(
                Notice(
                    id=notice_id(str(count), channel), channel=channel, kind=NoticeKind.PROBLEM, created_ms=wall_ms(),
                    told=(AlertedEvent(event=event),),
                )
            )  # fmt: skip
        self.notices += new
        await _answer(partial(self.runlog.notices.put, new))
        return new

    def _harmed(self, manager: Process) -> None:
        """It is dead, or frozen. All that it was before is dead, too."""
        self.harmed.update(_OPENED.findall(manager.log))

    async def restart(self, manager: Process, *, failpoint: str = "") -> None:
        """Killed, and started again."""
        if manager.popen is not None:
            await manager.end(signal.SIGKILL)
            self._harmed(manager)
        manager.environ = {"ETCRON_FAILPOINT": failpoint} if failpoint else {}
        manager.start()

    async def died(self, manager: Process, *, within_s: float = 60) -> None:
        """At its failpoint."""
        popen = manager.popen
        assert popen is not None
        await wait_until(lambda: popen.poll() is not None, description=f"{manager.name} is dead", timeout=within_s)
        manager.popen = None
        self._harmed(manager)

    async def under_faults(self, *, events: int, faults: int, seed: int) -> None:
        """Notices come in small lots; between them something breaks, wherever the senders are."""
        drawn = random.Random(seed)
        faults_there_are = (
            self._kill, self._kill, self._kill_all, self._kill_itself, self._break_mail, self._freeze, self._stop,
        )  # fmt: skip
        for turn in range(faults):
            seen = len(self.arrived())
            await self.put(events * (turn + 1) // faults - len(self.notices))
            # Right behind an answer, mostly: there a note is due.
            await wait_until(partial(self._got_more_than, seen), description="messages arrive", timeout=90)
            await asyncio.sleep(drawn.random() / 10)
            await drawn.choice(faults_there_are)(drawn.choice(self.cluster.managers))
        await self.all_told()

    async def _kill(self, victim: Process) -> None:
        await self.restart(victim)

    async def _kill_all(self, victim: Process) -> None:
        for manager in self.cluster.managers:
            await manager.end(signal.SIGKILL)
            self._harmed(manager)
        for manager in self.cluster.managers:
            await self.restart(manager)

    async def _kill_itself(self, victim: Process) -> None:
        await self.restart(victim, failpoint="after_notice_sent:kill")
        await self.put(self.channels)
        # The other one may be faster each time.
        with suppress(AssertionError):
            await self.died(victim, within_s=15)
        await self.restart(victim)

    async def _stop(self, victim: Process) -> None:
        assert victim.popen is not None
        victim.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2 * _LEASE_S)
        self._harmed(victim)
        victim.popen.send_signal(signal.SIGCONT)

    async def _break_mail(self, victim: Process) -> None:
        self.mails.dies_in_data += 1

    async def _freeze(self, victim: Process) -> None:
        self.cluster.log_store.pause()
        await asyncio.sleep(8)
        self.cluster.log_store.resume()

    def arrived(self) -> list[tuple[str, bytes]]:
        """All messages: their ids, and what they say."""
        posted = [(got.headers["webhook-id"], got.raw) for got in self.receiver.got]
        return posted + [(mail.id, mail.content) for mail in self.mails.mails]

    def _got_more_than(self, number: int) -> bool:
        return len(self.arrived()) > number

    async def all_told(self) -> None:
        """Every notice says that it was sent."""

        async def is_so() -> bool:
            counts = (await _answer(self.runlog.notices.counts)).by_state
            assert not counts[NoticeState.FAILED], "a notice has failed"
            return not counts[NoticeState.WAITING] and not counts[NoticeState.SENDING]

        await wait_until(is_so, description="all is told", timeout=_TOLD_WITHIN_S, at_most_every_s=0.5)

    def taken_over(self) -> list[TakenOver]:
        """All that managers say of it."""
        said = [found for manager in self.cluster.managers for found in _TAKEN_OVER.findall(manager.log)]
        return [TakenOver(to_ms(datetime.fromisoformat(time)), channel, gone) for time, channel, gone in said]

    async def violations(self) -> list[str]:
        """What is not as it should be."""
        found, contents, came = list[str](), dict[str, bytes](), Counter[str]()
        for message, content in self.arrived():
            came[message] += 1
            if contents.setdefault(message, content) != content:
                found.append(f"{message} came with another content")
        taken_over, told = self.taken_over(), Counter[str]()
        for notice in self.notices:
            there = await _answer(partial(self.runlog.notices.get, notice.id))
            if there is None or there.message not in came or there.sent_ms is None:
                found.append(f"{notice.id} was not told")
                continue
            told[there.message] += 1
            if there.message == there.id:  # of its notices the first
                on_its_way = range(there.created_ms, there.sent_ms + 1)
                taken = [one for one in taken_over if one.channel == there.channel and one.at_ms in on_its_way]
                if came[there.id] > 1 + len(taken):
                    found.append(
                        f"{there.id} came {came[there.id]} times, and {there.channel} was taken over {len(taken)} times"
                    )
        totals = {got.headers["webhook-id"]: got.body["data"]["total"] for got in self.receiver.got}
        found += [f"{one} tells {n} events, and not {told[one]}" for one, n in totals.items() if told[one] != n]
        lapsed = {name for manager in self.cluster.managers for name in _LAPSED.findall(manager.log)}
        lived = [one for one in taken_over if one.gone not in self.harmed | lapsed]
        return found + [f"{one.channel} was taken over from {one.gone}, which lived" for one in lived]


async def _answer(question: Callable[[], Awaitable[_T]]) -> _T:
    """Of the log store, which is asked again while it is frozen, or busy."""
    found = list[_T]()

    async def is_there() -> bool:
        with suppress(UnavailableError):
            found.append(await question())
        return bool(found)

    await wait_until(is_there, description="the log store answers")
    return found[0]


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
            ids = [message for message, _ in story.arrived()]
            said = f"{len(story.notices)} events, {len(set(ids))} messages, {len(ids) - len(set(ids))} once more, "
            print(f"{said}{len(story.harmed)} killed or frozen, {len(story.taken_over())} taken over")  # noqa: T201
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
