"""The disk of a directory of our own: one thread does all work on it, in order, and the loop waits for none of it.

A disk that hangs holds its caller in the kernel, where no signal and no deadline reaches it. So only a thread calls it,
and one that need not be joined: the process can stop without it. (What is left of the process stays until the disk
answers: the kernel ends no process before that.)
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar


def written_once(path: Path, value: str) -> str:
    """What the file says; ``value``, written down, where it does not say anything yet. OSError: it cannot be."""
    if path.exists() and (text := path.read_text(errors="replace").strip()):
        return text
    replace_durably(path, value + "\n")
    return value


def replace_durably(path: Path, text: str) -> None:
    """The file says this, also after a power cut; or what it had before. OSError: it cannot be."""
    draft = path.with_suffix(".new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


_T = TypeVar("_T")


class Disk:
    """Use from one event loop."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Have the thread; RuntimeError where the machine is out of processes. Else the first call does it."""
        if self._thread is None:
            thread = Thread(target=self._work, name="disk", daemon=True)
            thread.start()
            self._thread = thread

    def call(self, work: Callable[..., _T], *arguments: object) -> asyncio.Future[_T]:
        """What it returns, or raises, in its turn: after all that was asked for before."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def carry_out() -> None:
            try:
                tell = partial(_succeed, answer, work(*arguments))
            except Exception as error:
                tell = partial(_fail, answer, error)
            with suppress(RuntimeError):  # the loop has ended without it
                loop.call_soon_threadsafe(tell)

        self.start()
        self._calls.put(carry_out)
        return answer

    def close(self) -> None:
        """Nothing more is asked for; what was is still done, if the disk lets it."""
        self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()


def _succeed(answer: asyncio.Future[_T], result: _T) -> None:
    if not answer.done():  # else the caller has given up waiting
        answer.set_result(result)


def _fail(answer: asyncio.Future[_T], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def sync_directory(directory: Path) -> None:
    """Files made or removed in it stay so after a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
