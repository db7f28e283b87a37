"""What may have been done is never told as not done: each sender of a manager, and each way to lose an answer."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from common.access.credentials import SessionWay
from common.access.rights import OWNER
from common.access.subjects import Subject
from common.errors import EtcdInDoubtError, EtcdRefusedError, UnavailableError
from common.jobs.reader import parse_job
from common.notices.forms import Stored
from common.notices.silences import SILENCE, Silence
from common.protocol.dedupe import ANYTHING
from common.protocol.drain import Drain
from common.protocol.keys import RunId, encode_mark
from common.protocol.roster import RosterEntry
from common.protocol.saved_job import Pause, SavedJob
from common.protocol.txn import Txn, TxnResult
from manager.use_cases.drains import Drained
from manager.use_cases.kills import KillOutcome
from manager.use_cases.run_now import Wanted
from tests.support.access import Accessing
from tests.support.clearing import delete_prefix
from tests.support.joining import join
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.open_runs import claim, now_ms
from tests.support.sources import NODES

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

SPEC: Final = parse_job({"name": "j", "command": "mine", "cronExpr": "@yearly"})
OTHERS: Final = parse_job({"name": "j", "command": "another's", "cronExpr": "@yearly"})
RUN: Final = RunId.planned("j", 1_690_000_000_000)
PAUSE: Final = "/api/v1/jobs/j/pause"
KEY: Final = {"Idempotency-Key": "k"}


class LeapingClock(ShiftedClock):
    """Time passes when the test says so, too."""

    later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


Work = Callable[[Managed], Awaitable[Any]]


async def nothing(_: Managed) -> None:
    """Nobody else does anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A conditional write of a manager."""

    module: str
    """That sends it."""
    send: Work
    prepare: Work = nothing
    """What is there before."""
    others: Work
    """What happens once it was carried out, so that a second sending is refused."""
    done: object
    """What it comes to after that; a text: what the UnavailableError says."""
    says: str
    """What an UnavailableError says where there never is another answer."""


# What is there, and what others do


async def saved(manager: Managed, spec: Any = SPEC, **changes: Any) -> None:
    """Somebody's save; not by this manager."""
    value = replace(SavedJob(spec=spec, anchor_ms=now_ms()), **changes).to_json()
    await manager.etcd.put(manager.keys.job("j"), value)
    if await manager.etcd.get(manager.keys.mark("j")) is None:
        await manager.etcd.put(manager.keys.mark("j"), encode_mark(now_ms()))


async def paused(manager: Managed) -> None:
    pause = Pause(since_ms=1, by="ann")
    await saved(manager, replace(SPEC, enabled=False), pause=pause)


async def others_save(manager: Managed) -> None:
    await saved(manager, OTHERS)


async def blocked(manager: Managed) -> None:
    await saved(manager)
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(now_ms() + 86_400_000))


async def claimed(manager: Managed) -> None:
    await claim(manager, "j", RUN.plan_ms or 0)


async def settled(manager: Managed) -> None:
    """The run has ended, and what lay beside its key went with it."""
    for key in (manager.keys.run(RUN), manager.keys.kill(RUN), manager.keys.give_up(RUN)):
        await manager.etcd.delete(key)


async def ended(manager: Managed) -> None:
    await manager.etcd.delete(manager.keys.run(RUN))


async def live(manager: Managed) -> None:
    await join(manager, "w1")


async def drained(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.drain("w1"), Drain(by="ann", since_ms=1).to_json())


async def two_others_drain(manager: Managed) -> None:
    for since_ms, name in enumerate(("ann", "bob")):
        await manager.etcd.put(manager.keys.drain("w1"), Drain(by=name, since_ms=since_ms, reason=name).to_json())


async def another_drains_it_again(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.drain("w1"), Drain(by="bob", since_ms=2).to_json())


async def was_here(manager: Managed) -> None:
    entry = RosterEntry(worker="w1", host="h", seen_ms=7)
    await manager.etcd.put(manager.keys.roster_entry("w1"), entry.to_json())


async def comes_again(manager: Managed) -> None:
    await was_here(manager)
    await live(manager)


async def asked_and_run(manager: Managed) -> None:
    await delete_prefix(manager.etcd, manager.keys.requests)


# What is sent


async def save_at_its_revision(manager: Managed) -> str:
    there = await manager.etcd.get(manager.keys.job("j"))
    assert there is not None
    spec = replace(SPEC, command="changed")
    return (
        "saved"
        if (await manager.parts.jobs.save(spec, by="me", rights=OWNER, if_match=there.mod_revision)).changed
        else "same"
    )


async def save(manager: Managed) -> str:
    return "saved" if (await manager.parts.jobs.save(SPEC, by="me", rights=OWNER)).changed else "same"


async def pause(manager: Managed) -> str:
    return "paused" if (await manager.parts.jobs.pause("j", by="me", rights=OWNER)).changed else "was paused"


async def delete(manager: Managed) -> str:
    return "deleted" if (await manager.parts.jobs.delete("j", by="me", rights=OWNER)).changed else "was not there"


async def unblock(manager: Managed) -> Any:
    return (await manager.parts.unblocking.unblock("j", by="me", rights=OWNER, force=True)).changed


async def kill_run(manager: Managed) -> KillOutcome:
    return await manager.parts.kills.of_run(RUN, by="me", rights=OWNER)


async def kill_job(manager: Managed) -> tuple[RunId, ...]:
    return await manager.parts.kills.of_job("j", by="me", rights=OWNER)


async def give_up(manager: Managed) -> KillOutcome:
    return await manager.parts.give_ups.of_run(RUN, by="me", rights=OWNER, reason="it burned")


async def drain(manager: Managed) -> bool:
    return (await manager.parts.drains.drain("w1", by="me", rights=OWNER, reason="disk")).changed


async def undrain(manager: Managed) -> Drained:
    return await manager.parts.drains.undrain("w1", by="me", rights=OWNER)


async def forget(manager: Managed) -> str:
    await manager.parts.drains.forget("w1", by="me", rights=OWNER)
    return "forgotten"


async def run_now(manager: Managed) -> int:
    return (await manager.parts.run_now.ask("j", Wanted(), by="me", rights=OWNER, address="a")).status


async def log_in(manager: Managed) -> str:
    await manager.parts.sessions.open(ADA, way=SessionWay.PASSWORD, address="a", agent="a browser", secure=False)
    return "opened"


async def make_token(manager: Managed) -> str:
    await manager.parts.tokens.make(CI, name="deploy", days=1, role=None, by="me")
    return "made"


async def service_account(manager: Managed) -> None:
    await Accessing(manager).service(CI.name)


async def add_user(manager: Managed) -> str:
    return (await manager.parts.accounts.add_user("bob", password=None, groups=(), by="me")).name


async def silenced_long_ago(manager: Managed) -> None:
    old = SILENCE.to_json(Stored(record=Silence(jobs=("j",), from_ms=1, until_ms=2), created_ms=1, created_by="ann"))
    await manager.etcd.put(manager.keys.silence("0" * 12), old)


async def silence(manager: Managed) -> str:
    now_ms = manager.parts.clock.wall_ms()
    made = Silence(jobs=("j",), from_ms=now_ms, until_ms=now_ms + 1_000)
    await manager.parts.silences.add(made, by="me", rights=OWNER)
    return "silenced"


async def call_with_a_key(manager: Managed) -> str:
    response = await manager.http.post(PAUSE, json={}, headers=KEY)
    if response.status == 503:
        raise UnavailableError((await response.json())["detail"])
    assert response.status == 200
    return "paused"


ADA, CI = Subject.parse("user:ada"), Subject.parse("service:ci")
SERVICE, KILLS, DRAINS = "manager/use_cases/jobs.py", "manager/use_cases/kills.py", "manager/use_cases/drains.py"
SENDERS: Final = {
    "save that names a revision": Sender(
        module=SERVICE, prepare=saved, send=save_at_its_revision, others=others_save,
        done="job 'j' may or may not have been saved", says="job 'j' may or may not have been saved",
    ),
    "save": Sender(
        module=SERVICE, send=save, others=others_save, done="saved", says="job 'j' may or may not have been saved"
    ),
    "pause of what another pauses": Sender(
        module=SERVICE, prepare=saved, send=pause, others=paused,
        done="job 'j' may or may not have been paused", says="job 'j' may or may not have been paused",
    ),
    "delete of what is made again": Sender(
        module=SERVICE, prepare=saved, send=delete, others=others_save,
        done="deleted", says="job 'j' may or may not have been deleted",
    ),
    "unblock": Sender(
        module=SERVICE, prepare=blocked, send=unblock, others=others_save,
        done="job 'j' may or may not have been unblocked", says="job 'j' may or may not have been unblocked",
    ),
    "kill of a run that is settled": Sender(
        module=KILLS, prepare=claimed, send=kill_run, others=settled,
        done=f"{RUN} may or may not be killed", says=f"{RUN} may or may not be killed",
    ),
    "kill of a run whose kill is still there": Sender(
        module=KILLS, prepare=claimed, send=kill_run, others=ended,
        done=KillOutcome.ASKED, says=f"{RUN} may or may not be killed",
    ),
    "kill of all runs of a job": Sender(
        module=KILLS, prepare=claimed, send=kill_job, others=settled,
        done=f"{RUN} may or may not be killed", says=f"{RUN} may or may not be killed",
    ),
    "give-up that is carried out": Sender(
        module="manager/use_cases/give_ups.py", prepare=claimed, send=give_up, others=settled,
        done=f"{RUN} may or may not be given up", says=f"{RUN} may or may not be given up",
    ),
    "give-up that is still there": Sender(
        module="manager/use_cases/give_ups.py", prepare=claimed, send=give_up, others=ended,
        done=KillOutcome.ASKED, says=f"{RUN} may or may not be given up",
    ),
    "drain": Sender(
        module=DRAINS, prepare=live, send=drain, others=two_others_drain,
        done="it is not known whether w1 is drained now", says="it is not known whether w1 is drained now",
    ),
    "undrain of what is drained again": Sender(
        module=DRAINS, prepare=drained, send=undrain, others=another_drains_it_again,
        done=Drained(drain=Drain(by="bob", since_ms=2), changed=True), says="it is not known whether w1 is drained now",
    ),
    "undrain": Sender(
        module=DRAINS, prepare=drained, send=undrain, others=nothing,
        done=Drained(drain=None, changed=True), says="it is not known whether w1 is drained now",
    ),
    "forgetting a worker": Sender(
        module=DRAINS, prepare=was_here, send=forget, others=nothing,
        done="forgotten", says="w1 may or may not have been forgotten",
    ),
    "forgetting a worker that comes again": Sender(
        module=DRAINS, prepare=was_here, send=forget, others=comes_again,
        done="w1 may or may not have been forgotten", says="w1 may or may not have been forgotten",
    ),
    "run now": Sender(
        module="manager/use_cases/run_now.py", prepare=saved, send=run_now, others=asked_and_run,
        done=202, says="a run of 'j' may or may not have been asked for",
    ),
    "login": Sender(
        module="manager/access/sessions.py", prepare=nothing, send=log_in, others=nothing,
        done="opened", says="it may or may not have been done",
    ),
    "new token": Sender(
        module="manager/access/tokens.py", prepare=service_account, send=make_token, others=nothing,
        done="made", says="it may or may not have been done",
    ),
    "new user": Sender(
        module="manager/use_cases/records.py", prepare=nothing, send=add_user, others=nothing,
        done="bob", says="it is not known whether",
    ),
    "silence that sweeps old ones": Sender(
        module="manager/use_cases/silences.py", prepare=silenced_long_ago, send=silence, others=nothing,
        done="silenced", says="old silences may be there still",
    ),
    "beginning of a call with a key": Sender(
        module="manager/http/idempotency.py", prepare=saved, send=call_with_a_key, others=nothing,
        done="paused", says="nothing was done",
    ),
}  # fmt: skip


UNCONDITIONAL: Final = {"manager/use_cases/access_records.py"}
"""Deletes what was theirs, without a compare: the same again does no harm, and nothing is told of it."""


@asynccontextmanager
async def to_be_sent(place: Place, sender: Sender) -> AsyncIterator[tuple[Managed, LeapingClock]]:
    clock = LeapingClock()
    async with managing(place, clock=clock) as manager:
        await sender.prepare(manager)
        yield manager, clock


class Etcd:
    """What becomes of the conditional writes of a manager, one after the other; of later ones, what etcd says."""

    def __init__(self, manager: Managed, *becomes: str | Exception | Work) -> None:
        self._manager = manager
        self._becomes = list(becomes)
        self._txn = manager.parts.etcd.txn
        self.sent: list[Txn] = []

    async def txn(self, transaction: Txn) -> TxnResult:
        if not transaction.compares:
            return await self._txn(transaction)
        self.sent.append(transaction)
        match self._becomes.pop(0) if self._becomes else "answered":
            case "lost":
                await self._txn(transaction)
                raise EtcdInDoubtError("a lost answer")
            case "swallowed":
                raise EtcdInDoubtError("a lost answer")
            case Exception() as error:
                raise error
            case str():
                return await self._txn(transaction)
            case work:
                await work(self._manager)
                return await self._txn(transaction)


async def came_to(manager: Managed, sender: Sender, etcd: Etcd, patch: pytest.MonkeyPatch) -> object:
    """What the sender says in the end; of an UnavailableError its text."""
    patch.setattr(manager.parts.etcd, "txn", etcd.txn)
    try:
        return await sender.send(manager)
    except UnavailableError as error:
        return str(error)


@pytest.mark.parametrize("name", SENDERS)
async def test_what_was_done_and_changed_by_others_since_is_not_told_as_not_done(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = SENDERS[name]
    async with to_be_sent(place, sender) as (manager, _):
        etcd = Etcd(manager, "lost", sender.others)
        said = await came_to(manager, sender, etcd, monkeypatch)
    assert etcd.sent[0] == etcd.sent[1], "the same each time"
    if isinstance(sender.done, str):
        assert str(said).startswith(sender.done)
    else:
        assert said == sender.done


@pytest.mark.parametrize("name", SENDERS)
async def test_what_did_not_arrive_is_sent_again(place: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = SENDERS[name]
    async with to_be_sent(place, sender) as (manager, _):
        etcd = Etcd(manager, "swallowed")
        said = await came_to(manager, sender, etcd, monkeypatch)
    assert etcd.sent[0] == etcd.sent[1]
    assert "may or may not" not in str(said)


NO_MORE: Final = (UnavailableError("away"), EtcdRefusedError("no permission"), EtcdInDoubtError("no answer"))


@pytest.mark.parametrize("then", NO_MORE)
@pytest.mark.parametrize("name", SENDERS)
async def test_a_doubt_is_told_where_etcd_does_not_come_back(
    place: Place, name: str, then: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tells_a_doubt(place, SENDERS[name], "lost", [then], monkeypatch)


@pytest.mark.parametrize("name", SENDERS)
async def test_a_doubt_is_told_though_nothing_was_done(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tells_a_doubt(place, SENDERS[name], "swallowed", NO_MORE, monkeypatch)


async def tells_a_doubt(
    place: Place, sender: Sender, first: str, thens: Sequence[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that it sends, where one answer is missing and then there is none any more."""
    async with to_be_sent(place, sender) as (manager, clock):
        for then in thens:

            async def gone(_: Managed, then: Exception = then) -> None:
                clock.later_s += 3_600
                raise then.with_traceback(None)  # else the exception keeps a manager each time

            with monkeypatch.context() as meanwhile:
                said = await came_to(manager, sender, Etcd(manager, first, gone), meanwhile)
            assert str(said).startswith(sender.says), then
            assert str(then) in str(said)


async def test_a_call_with_a_key_that_may_have_been_done_is_not_forgotten(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = LeapingClock()
    async with managing(place, clock=clock) as manager:
        await saved(manager)

        async def gone(_: Managed) -> None:
            clock.later_s += 3_600
            raise UnavailableError("away")

        etcd = Etcd(manager, "answered", "lost", gone)
        monkeypatch.setattr(manager.parts.etcd, "txn", etcd.txn)
        problem = await problem_of(await manager.http.post(PAUSE, json={}, headers=KEY), 503)
        assert "may or may not have been paused" in problem["detail"]
        assert await manager.etcd.count(manager.keys.deduped(ANYTHING, "")) == 1
        again = await problem_of(await manager.http.post(PAUSE, json={}, headers=KEY), 409)
        assert again["code"] == "idempotency-in-progress"


def test_every_module_of_a_manager_that_settles_is_tried() -> None:
    settling = {
        str(path)
        for path, nodes in NODES.items()
        if path.parts[0] == "manager"
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("settle", "answered")
    }
    assert settling == {sender.module for sender in SENDERS.values()} | UNCONDITIONAL
