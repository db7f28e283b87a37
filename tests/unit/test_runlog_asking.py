"""What pymongo itself stumbles over is the log store's absence, and no reason for a process to end."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pymongo._asyncio_lock import Condition, Lock

from common.errors import UnavailableError
from common.runlog.client import Client, asking


class Stumbling:
    """A client whose wait for a server ends as pymongo's does when it is over in the moment in which it is woken."""

    options = SimpleNamespace(server_selection_timeout=1.0)

    @property
    async def is_primary(self) -> Any:
        return await Condition(Lock()).wait()


async def test_a_wait_that_pymongo_loses_is_a_store_that_does_not_answer() -> None:
    with pytest.raises(UnavailableError, match="no server was found in time"):
        async with asking(cast(Client, Stumbling()), 1):
            pytest.fail("nothing is asked of it")


async def test_a_machine_without_threads_left_is_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Resolving(Stumbling):
        @property
        async def is_primary(self) -> Any:
            return await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 27017)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(UnavailableError, match="no thread could be started"):
            async with asking(cast(Client, Resolving()), 1):
                pytest.fail("nothing is asked of it")


def no_thread(_thread: threading.Thread) -> None:
    """As the interpreter says it where the kernel refuses one."""
    raise RuntimeError("can't start new thread")


async def test_other_errors_of_the_caller_stay_what_they_are() -> None:
    class Found(Stumbling):
        @property
        async def is_primary(self) -> Any:
            return True

    with pytest.raises(RuntimeError, match="mine"):
        async with asking(cast(Client, Found()), 1):
            raise RuntimeError("mine")
