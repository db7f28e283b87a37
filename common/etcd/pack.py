"""Writes of many in one transaction, and the halving that finds which is in the way of the others.

:func:`common.protocol.txn.packed` says how many go together. A transaction is all or nothing, so one share that
is refused stops all: they are sent again in halves, down to the one whose compare is false, or that etcd refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from common.errors import EtcdRefusedError
from common.etcd.client import EtcdClient
from common.etcd.settle import Patience, answered, is_for_good
from common.protocol.txn import Txn

_ItemT = TypeVar("_ItemT")


@dataclass(slots=True, eq=False)
class Step:
    """A conditional write for one run, and what it means when it was carried out, or refused."""

    txn: Txn
    """Carried out together with those of others; what it would read of a refusal is not read then."""
    done: Callable[[int], None]
    """Given the revision."""
    refused: Callable[[], None]
    """Because of one of its compares."""
    of: str
    """The run, for the log."""


async def together(
    client: EtcdClient, steps: Sequence[Step], patience: Patience, put_aside: Callable[[Step, EtcdRefusedError], None]
) -> None:
    """The steps in one transaction, or in as few as the one in the way leaves; each is given what became of it.

    ``put_aside``: one that etcd refuses for good; an earlier sending of it may be in doubt, and it shows in its
    compares when it is sent again.
    """

    async def all_of(steps: Sequence[Step]) -> bool:
        txn = Txn(
            [compare for step in steps for compare in step.txn.compares],
            list(dict.fromkeys(operation for step in steps for operation in step.txn.then)),  # one sentinel for all
        )
        answer = await answered(partial(client.txn, txn), patience)
        if answer.succeeded:
            for step in steps:
                step.done(answer.revision)
        elif len(steps) == 1:
            steps[0].refused()
        return answer.succeeded or len(steps) == 1

    await apart(steps, all_of, put_aside)


async def apart(
    items: Sequence[_ItemT],
    work: Callable[[Sequence[_ItemT]], Awaitable[bool]],
    refused: Callable[[_ItemT, EtcdRefusedError], None],
    *,
    at_once: bool = False,
) -> None:
    """Do the work on all together; where it could not be done, or etcd refuses it for good, in halves, down to those
    that are ``refused``. Any other error of ``work`` is passed on.

    ``work``: False: nothing was done, for one of several stands in the way. ``at_once``: no half waits for the other.
    """
    if not items:
        return
    try:
        if await work(items):
            return
    except EtcdRefusedError as error:
        if not is_for_good(error):
            raise
        if len(items) == 1:
            refused(items[0], error)
            return
    middle = len(items) // 2
    halves = (apart(half, work, refused, at_once=at_once) for half in (items[:middle], items[middle:]))
    if at_once:
        await asyncio.gather(*halves)
    else:
        for half in halves:
            await half
