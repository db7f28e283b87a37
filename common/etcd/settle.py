"""What became of a write, however often its answer is lost: the one rule for doubt, and the one place that meets it.

    sent --succeeded-------------------------> done, by this sending
     ^ ^--no answer: from now on in doubt----> sent again, identical
     |  \\-away, busy, refused by etcd--------> as the sender's `Patience` says; this sending certainly did nothing,
     |                                          and of those before it the error says nothing
     |--a compare is false, no doubt---------> not done
     '--a compare is false, in doubt---------> what etcd has answered shows what became of the sendings before:
            carried out, at this revision       done; when the one that did it was sent is not known
            never any more                      not done
            still open                          sent again, until it is one of the others
            that cannot be known                UnsettledError

So what may have been done is never reported as not done: an error without a doubt in it is raised only before there is
one. `settle` is for callers that need to know what became of the write; `answered` for those that read etcd's refusal
in the same way with and without a doubt, because it shows what is there now.

A call may fail after etcd has carried out its write. `noting_done` tells its caller of such a write.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Self, TypeVar, assert_never

from common.clock import Clock
from common.errors import EtcdBusyError, EtcdError, EtcdInDoubtError, EtcdRefusedError, UnavailableError
from common.etcd.client import EtcdClient
from common.protocol.txn import Earlier, Fate, Txn, TxnResult

AGAIN_S: Final = 1.0
"""How long what was refused for good waits before it is tried again."""
_LONGEST_PAUSE_S: Final = 0.5

_AnswerT = TypeVar("_AnswerT")


class UnsettledError(UnavailableError):
    """It may or may not have been done, or a part of it: look before you do it again."""

    def __init__(self, message: str, *, refusal: TxnResult | None = None) -> None:
        super().__init__(message)
        self.refusal = refusal
        """What is there, where etcd has answered and it cannot be known; None: it has not answered in time."""


@dataclass(slots=True)
class Noted:
    """Whether a write was carried out."""

    done: bool = False


_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)


@contextmanager
def noting_done() -> Iterator[Noted]:
    """Notes what `settle` finds carried out meanwhile, in this task and in those that it starts."""
    noted = Noted()
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def note_done() -> None:
    """Etcd has carried out a write that `answered` sent; `settle` notes its own."""
    if (noted := _noted.get()) is not None:
        noted.done = True


def is_in_doubt(error: Exception) -> bool:
    """Whether what failed so may have been carried out. Only for a caller that hands the doubt to what settles it."""
    return isinstance(error, EtcdInDoubtError)


def is_for_good(error: Exception) -> bool:
    """Whether etcd would refuse the same again until it is mended by hand; False: it is away, busy, or in doubt."""
    return isinstance(error, EtcdRefusedError) and not isinstance(error, EtcdBusyError)


class Bears(Enum):
    """Which failures a sender waits out."""

    DOUBT = auto()
    """Its own doubt: before there is one, each error is raised at once; afterwards none is."""
    ABSENCE = auto()
    """That etcd is away or busy. What it refuses for good is raised, also in doubt: the caller may send it in parts."""
    ALL = auto()
    """Also what etcd refuses for good: that is sent again each second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a sender goes on, and how it waits."""

    bears: Bears
    pause_s: Callable[[int], float]
    """Before the next sending, by how many there were."""
    is_over: Callable[[], bool] = lambda: False
    """Then the error is raised: in doubt as UnsettledError."""
    in_doubt: Callable[[Exception], str] = "it may or may not have been carried out ({})".format
    """Its message, with the last error."""
    note: Callable[[Exception], None] = lambda _: None
    """Given each failure that is waited out."""
    look_again_s: float | None = None
    """Where a write in doubt is still open, in place of the pause."""
    on_open: Callable[[], None] = lambda: None
    """It is."""

    @classmethod
    def until(
        cls, deadline: float, clock: Clock,
        in_doubt: Callable[[Exception], str] = "it may or may not have been done: etcd gave no answer. ({})".format,
        note: Callable[[Exception], None] = lambda _: None,
    ) -> Self:  # fmt: skip
        """Of a user who waits for an answer: only a doubt is worth it, and until then; longer with each try."""
        return cls(
            bears=Bears.DOUBT, pause_s=growing_pause_s, is_over=lambda: clock.monotonic() > deadline,
            in_doubt=in_doubt, note=note,
        )  # fmt: skip


@dataclass(slots=True)
class _Tries:
    """The sendings of one write so far."""

    patience: Patience
    count: int = 0
    doubt: Exception | None = None

    async def failed(self, error: Exception) -> None:
        """Returns when it is to be sent again."""
        self.count += 1
        self.doubt = error if is_in_doubt(error) else self.doubt
        bears, for_good = self.patience.bears, is_for_good(error)
        if (bears is Bears.DOUBT and self.doubt is None) or (bears is Bears.ABSENCE and for_good):
            raise error
        self._go_on(error)
        self.patience.note(error)
        await asyncio.sleep(AGAIN_S if for_good and bears is Bears.ALL else self.patience.pause_s(self.count))

    async def wait_while_open(self, doubt: Exception) -> None:
        """Returns when it is to be sent again."""
        self.count += 1
        self._go_on(doubt)
        self.patience.on_open()
        again_s = self.patience.look_again_s
        await asyncio.sleep(self.patience.pause_s(self.count) if again_s is None else again_s)

    def _go_on(self, error: Exception) -> None:
        if self.patience.is_over():
            raise error if self.doubt is None else UnsettledError(self.patience.in_doubt(error)) from error


async def answered(ask: Callable[[], Awaitable[_AnswerT]], patience: Patience) -> _AnswerT:
    """etcd's answer to a read, or to a write that is the same each time."""
    tries = _Tries(patience)
    while True:
        try:
            return await ask()
        except (EtcdError, UnavailableError) as error:
            await tries.failed(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What is certain of a write."""

    done: bool
    """Whether it was carried out; else it never will be."""
    answer: TxnResult
    """etcd's last: a refusal also where an earlier sending was carried out."""
    revision: int
    """Of the write; 0 where that is not known."""
    sent: float
    """CLOCK_BOOTTIME before the sending that was carried out; -inf where that is not known."""


async def settle(
    client: EtcdClient, clock: Clock, txn: Txn, patience: Patience, earlier: Callable[[TxnResult], Earlier]
) -> Settled:
    """Sends the transaction, identical each time, until it is known what became of it.

    ``earlier``: what a refusal shows of the sendings before; asked only where one of them is in doubt.
    UnsettledError: the patience is over, or it cannot be known. Other errors: it was certainly not carried out.
    """
    tries = _Tries(patience)
    while True:
        sent = clock.boottime()
        try:
            answer = await client.txn(txn)
        except (EtcdError, UnavailableError) as error:
            await tries.failed(error)
            continue
        if answer.succeeded:
            note_done()
            return Settled(done=True, answer=answer, revision=answer.revision, sent=sent)
        if tries.doubt is None:
            return Settled(done=False, answer=answer, revision=0, sent=float("-inf"))
        match earlier(answer):
            case int() as revision:
                note_done()
                return Settled(done=True, answer=answer, revision=revision, sent=float("-inf"))
            case Fate.NEVER:
                return Settled(done=False, answer=answer, revision=0, sent=float("-inf"))
            case Fate.OPEN:
                await tries.wait_while_open(tries.doubt)
            case Fate.UNKNOWN:
                raise UnsettledError(patience.in_doubt(tries.doubt), refusal=answer) from tries.doubt
            case never:
                assert_never(never)


def growing_pause_s(tries: int) -> float:
    """Longer with each try, and never the same for two."""
    return random.uniform(0.5, 1.0) * min(_LONGEST_PAUSE_S, 0.05 * 2.0 ** min(tries, 10))
