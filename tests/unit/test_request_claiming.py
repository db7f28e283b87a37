"""A claim on its way to etcd: sent again, identical, until its fate is certain; and what counts meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.errors import EtcdBusyError, EtcdInDoubtError, UnavailableError
from common.protocol.keys import Keys, RunId
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.txn import Earlier, Fate, Txn
from tests.support.fake_clock import FakeClock
from worker.plan import request_claiming
from worker.plan.request_claiming import NOTHING, RequestClaiming, Tried
from worker.refusals import Refusals
from worker.runs import RunTable

REQUEST = Request(
    run_id=RunId.planned("job", 7), origin=Origin.OFFERED, job_create_revision=3, plan_ms=7, dispatch_ms=7,
    not_before_ms=7,
)  # fmt: skip
DOUBT, BUSY, AWAY = EtcdInDoubtError("no answer"), EtcdBusyError("too much to do"), UnavailableError("away")


class Claim:
    """What a claim says of the answers below."""

    def transaction(self) -> str:
        return "the claim"

    def earlier(self, refusal: Any) -> Earlier:
        if refusal.own_fence is not None:
            return cast(int, refusal.own_fence)
        return Fate.NEVER if refusal.is_over else Fate.OPEN

    def comes_late(self, refusal: Any) -> bool:
        return bool(refusal.is_late)

    def meets_lock(self, refusal: Any) -> bool:
        return bool(refusal.locked)


def succeeded(revision: int) -> object:
    return SimpleNamespace(succeeded=True, revision=revision)


def refused(
    *, own_fence: int | None = None, is_over: bool = False, locked: bool = False, is_late: bool = False
) -> object:
    return SimpleNamespace(
        succeeded=False, revision=9, own_fence=own_fence, is_over=is_over, locked=locked, is_late=is_late
    )


class Etcd:
    """Answers so, one after the other."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.sent: list[object] = []
        self.counts: list[tuple[int, int, int]] = []
        self.claiming: RequestClaiming | None = None
        self.table = RunTable(2)
        self.clock = FakeClock()

    async def txn(self, transaction: Txn) -> object:
        assert self.claiming is not None
        self.sent.append(transaction)
        self.counts.append((self.claiming.unsettled, self.claiming.sending, self.table.claiming_slots))
        self.clock.advance(1_000)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_claiming, "_RETRY_S", 0)
    monkeypatch.setattr(request_claiming, "_LOOK_AGAIN_S", 0)


async def tried(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> tuple[Tried, list[str]]:
    """What becomes of a claim of two slots, and what was called meanwhile."""
    called: list[str] = []
    refusals = cast(Refusals, SimpleNamespace(note=lambda name, _: called.append(f"noted {name}")))
    unneeded = cast(Any, None)
    etcd.claiming = claiming = RequestClaiming(
        client=cast(Any, etcd), keys=Keys(), identity=unneeded, lost_after_ms=5, table=etcd.table,
        refusals=refusals, clock=etcd.clock, on_room=lambda: called.append("room"),
    )  # fmt: skip
    monkeypatch.setattr(claiming, "_claim", lambda *_: Claim())
    monkeypatch.setattr(request_claiming, "claimed_run", lambda _, __, *, fence, sent: (fence, sent))
    counted = claiming.count(2)
    job = cast(PlannedJob, SimpleNamespace(takes_lock=True))
    result = await claiming.claim(REQUEST, job, unneeded, counted)
    counted.settle()
    assert (claiming.unsettled, claiming.sending, etcd.table.claiming_slots) == (0, 0, 0)
    assert not etcd.answers
    assert set(etcd.sent) == {"the claim"}, "the same each time"
    return result, called


@pytest.mark.parametrize(
    ("answers", "fence", "sent_s"),
    [
        pytest.param([succeeded(4)], 4, 1000.0, id="at once"),
        pytest.param([DOUBT, succeeded(4)], 4, 1001.0, id="it had not arrived"),
        pytest.param([DOUBT, refused(own_fence=3)], 3, float("-inf"), id="it had arrived"),
        pytest.param([DOUBT, AWAY, BUSY, refused(own_fence=3)], 3, float("-inf"), id="asked in vain meanwhile"),
        pytest.param([DOUBT, refused(locked=True), refused(own_fence=3)], 3, float("-inf"), id="it arrived late"),
    ],
)  # fmt: skip
async def test_claim_that_was_carried_out_is_won_with_the_time_at_which_that_is_certain(
    monkeypatch: pytest.MonkeyPatch, answers: Sequence[object], fence: int, sent_s: float
) -> None:
    result, _ = await tried(Etcd(*answers), monkeypatch)
    assert result == Tried(run=cast(Any, (fence, sent_s)))


@pytest.mark.parametrize("error", [BUSY, AWAY], ids=["busy", "away"])
async def test_claim_that_was_certainly_not_carried_out_is_no_doubt(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    result, called = await tried(Etcd(error), monkeypatch)
    assert (result, called) == (NOTHING, ["noted job@7#1", "room"])


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("before", [[], [DOUBT]], ids=["certain", "in doubt"])
async def test_claim_that_never_will_be_carried_out_ends(
    monkeypatch: pytest.MonkeyPatch, before: list[object], locked: bool
) -> None:
    result, _ = await tried(Etcd(*before, refused(is_over=bool(before), locked=locked)), monkeypatch)
    assert result == Tried(met_lock=locked)


async def test_claim_in_doubt_that_was_refused_so_far_takes_no_slot_and_stands_in_nobodys_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    etcd = Etcd(DOUBT, refused(locked=True), refused(locked=True), refused(is_over=True))
    _, called = await tried(etcd, monkeypatch)
    assert etcd.counts == [(1, 1, 2), (1, 1, 2), (1, 0, 0), (1, 0, 0)]
    assert called == ["room"], "once"


@pytest.mark.parametrize(
    ("answers", "lost"),
    [
        pytest.param([succeeded(4)], 0, id="won"),
        pytest.param([refused(locked=True)], 0, id="the lock is held"),
        pytest.param([refused(is_over=True, is_late=True)], 1, id="another worker was first"),
        pytest.param([DOUBT, refused(own_fence=3, is_late=True)], 0, id="an earlier sending was first"),
    ],
)
async def test_claims_that_came_after_another_workers_are_counted(
    monkeypatch: pytest.MonkeyPatch, answers: Sequence[object], lost: int
) -> None:
    etcd = Etcd(*answers)
    await tried(etcd, monkeypatch)
    assert etcd.claiming is not None
    assert etcd.claiming.lost == lost
