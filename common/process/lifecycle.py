"""How a process lives and ends: one task group, loops with names, an orderly stop, no survivors.

* SIGTERM, SIGINT and SIGHUP ask for a stop; a second one asks to hurry. A process that was started with SIGHUP ignored
  (``nohup``) goes on ignoring it.
* A loop that dies, or ends unasked, takes the process down: exit status 1 and one logged error for it.
* A child can ask to die with its parent, whatever becomes of the parent.
* A cancellation is never swallowed: `asyncio.TaskGroup` (of Python 3.11) raises its children's errors and drops one
  that comes in the same turn of the loop; pymongo swallows one now and then. Code that catches such errors and goes on
  would then never end.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from common.process.runtime import EventLoop
from common.process.threads import can_start_threads

_T = TypeVar("_T")


async def until_first(*works: Coroutine[Any, Any, object]) -> None:
    """Runs them side by side until the first one ends or fails, then ends the others; raises what it raised.

    For a caller that catches the error and goes on: its own cancellation is raised whatever else has happened.
    """
    await _side_by_side(works, asyncio.FIRST_COMPLETED)


async def is_done_before(event: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Runs the work to its end, or until the event comes: then it is cancelled, and False returned."""
    await until_first(work, event.wait())
    return not event.is_set()


async def until_all(*works: Coroutine[Any, Any, None]) -> None:
    """Runs them side by side until all have ended, or the first one fails; then likewise."""
    await _side_by_side(works, asyncio.FIRST_EXCEPTION)


async def all_ended(works: Iterable[Awaitable[_T]]) -> list[_T]:
    """What each has come to, in order. Where one fails, its error is raised once the others have ended by themselves.

    For works of which each counts by itself: after an `asyncio.gather` they would go on with nothing left to wait for
    them.
    """
    results = await asyncio.gather(*works, return_exceptions=True)
    for one in results:
        if isinstance(one, BaseException):
            raise one
    return cast(list[_T], results)


async def _side_by_side(works: tuple[Coroutine[Any, Any, object], ...], until: str) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=until)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


@contextmanager
def raising_cancellation() -> Iterator[None]:
    """Raises CancelledError at the end where the task was cancelled meanwhile, whatever else has happened.

    Not around a TaskGroup: that one counts a cancellation of its own.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


log = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CANCEL_AGAIN_S = 5.0
_NO_MORE = (ctypes.c_ulong(0),) * 3
_libc = ctypes.CDLL(None, use_errno=True)


class LoopEndedError(RuntimeError):
    """A loop ended although the process had not been asked to stop."""


class Stop:
    """The wish to stop: `requested` at the first signal, `hurry` at the second."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.hurry = asyncio.Event()

    def request(self, why: str) -> None:
        """Ask for a stop; asked again, ask to hurry."""
        if self.requested.is_set():
            self.hurry.set()
            log.warning("asked again to stop, hurrying", extra={"action": "hurry", "why": why})
            return
        self.requested.set()
        log.info("stopping", extra={"action": "stopping", "why": why})


def run(main: Callable[[Stop], Coroutine[Any, Any, None]], *, passed_on: tuple[type[Exception], ...] = ()) -> int:
    """Run `main` until it returns; the process's exit status: 0, or 1 when it failed (logged, once for each cause).

    Errors of the types `passed_on` are raised instead (out of their group), for a caller that reports them in words.
    """

    async def with_signals() -> None:
        stop = Stop()
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, stop.request, number.name)
        if await can_start_threads(stop.requested):
            await main(stop)

    try:
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            runner.run(with_signals())
    except Exception as error:
        found = list(causes(error))
        for cause in found:
            if isinstance(cause, passed_on):
                raise cause from None
        for cause in found:
            log.error("the process ends", exc_info=cause, extra={"action": "process_failed"})
        return 1
    return 0


async def run_loops(
    stop: Stop,
    loops: Mapping[str, Callable[[], Awaitable[None]]],
    *,
    shut_down: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run the loops, each as a task with its name, until a stop is requested; then `shut_down`, then cancel them.

    A loop that dies or ends earlier cancels the others and raises (as TaskGroup does, an exception group); `shut_down`
    is not called then: what it would do in order has lost its order.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_endless(name, loop, stop), name=name) for name, loop in loops.items()]
        await stop.requested.wait()
        if shut_down is not None:
            await shut_down()
        await _cancelled(tasks)


async def _cancelled(tasks: Collection[asyncio.Task[None]]) -> None:
    """Every task has ended; one that outlives its cancellation is named, and cancelled again."""
    left: Collection[asyncio.Task[None]] = tasks
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN_S)
        for task in left:
            extra = {"action": "loop_outlives", "loop": task.get_name()}
            log.error("the loop %r has outlived its cancellation", task.get_name(), extra=extra)


async def _endless(name: str, loop: Callable[[], Awaitable[None]], stop: Stop) -> None:
    task = asyncio.current_task()
    assert task is not None, "it is one of the process's loops"
    try:
        await loop()
    except Exception as error:
        error.add_note(f"in the loop {name!r}")
        raise
    except asyncio.CancelledError as error:
        # A library that cancels what we wait for, and not us: the task group would take it for a loop that was ended.
        if task.cancelling() or stop.requested.is_set():
            raise
        raise LoopEndedError(f"the loop {name!r} was cancelled although nobody asked it to end") from error
    if not stop.requested.is_set():
        raise LoopEndedError(f"the loop {name!r} ended although nobody asked it to")


def causes(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group of groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from causes(inner)
    else:
        yield error


def gain_no_privileges() -> None:
    """Neither this process nor any that it starts gets rights by executing a program that has some (setuid). Linux."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *_NO_MORE) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")


def set_parent_death_signal(parent: int) -> None:
    """Have the kernel kill this process (SIGKILL) when the thread that forked it ends; survives exec.

    To be called in the child (`preexec_fn`), with the parent's pid: where the parent was dead before the call, the
    child has another parent by now and ends at once. Linux only.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), *_NO_MORE) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
