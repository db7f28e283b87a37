"""What a process runs on: the event loop, the garbage collector, and how busy the machine is.

The loop is uvloop, which does the same as Python's own at a fraction of its cost a turn: a run costs its worker some
ten turns, and with Python's own a sixth of the worker's time goes there. Processes are not started by it (see
``worker/run/first_process.py``).

The garbage collector looks rarely, and leaves alone what a process has read at its start. 100,000 jobs are a million
objects. Python's collector looks at all of them in one go, a fifth of a second in which nothing else happens, whenever
a quarter as many new ones have come. They hold no cycles, and go by their reference counts when a job is edited; so
there is nothing to find there.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, TypeGuard

import psutil
import uvloop

_RARELY: Final = 10
_COLLECTIONS: Final = (5_000, 20, 20)
"""Objects that are new, and how often the young are looked through before the older, and those before all."""
_log = logging.getLogger(__name__)


def collect_rarely() -> None:
    """For a worker, at its start: garbage in cycles is rare, and looking for it takes 0.1 s with 10,000 jobs."""
    gc.freeze()  # what has been imported stays
    gc.set_threshold(*_COLLECTIONS)


async def leave_alone_what_is_read(has_read: asyncio.Event) -> None:
    """A loop: whatever lives once ``has_read`` is set is not looked at again. One whole collection comes before it.

    Until then whole collections are rarer: nearly all that is made then stays.
    """
    usual = gc.get_threshold()
    gc.set_threshold(*usual[:2], _RARELY * usual[2])
    try:
        await has_read.wait()
    finally:
        gc.set_threshold(*usual)
    gc.collect()
    gc.freeze()
    # The number of objects is not logged: counting them takes 20 ms.
    _log.debug("the collector leaves alone what was read", extra={"action": "heap.frozen"})
    await asyncio.Event().wait()


def machine_load() -> tuple[float, float]:
    """The load average of the last minute, and the memory in use in percent; zeros where the machine does not say."""
    try:
        return round(psutil.getloadavg()[0], 2), psutil.virtual_memory().percent
    except OSError:  # out of file descriptors, say
        return 0.0, 0.0


class EventLoop(uvloop.Loop):
    """uvloop, but for names: libuv aborts the process where it cannot start the threads that look them up.

    What connects or listens is given addresses: for names, uvloop would ask libuv, whatever `getaddrinfo` is here.
    """

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:
        """As asyncio's: in a thread of Python's, whose failure is an error."""
        return await self.run_in_executor(None, partial(socket.getaddrinfo, *arguments, **options))

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """As asyncio's: to the first of the name's addresses that takes it."""
        if not _is_name(host):
            return await super().create_connection(protocol_factory, host, port, **options)
        if options.get("ssl") and options.get("server_hostname") is None:
            options["server_hostname"] = host
        refused: OSError | None = None
        for address in await self._addresses(host, port, family=options.get("family", 0)):
            try:
                return await super().create_connection(protocol_factory, address, port, **options)
            except OSError as error:
                refused = error
        assert refused is not None, "a name without an address is an error"
        raise refused

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """As asyncio's: at each address of the name."""
        if _is_name(host):
            family, flags = options.get("family", 0), options.get("flags", socket.AI_PASSIVE)
            host = await self._addresses(host, port, family=family, flags=flags)
        return await super().create_server(protocol_factory, host, port, **options)

    async def _addresses(self, name: str, port: Any, *, family: int, flags: int = 0) -> list[str]:
        found = await self.getaddrinfo(name, port, family=family, type=socket.SOCK_STREAM, flags=flags)
        return list(dict.fromkeys(address[0] for *_, address in found))


def _is_name(host: object) -> TypeGuard[str]:
    if not isinstance(host, str) or not host:
        return False
    try:
        ip_address(host)
    except ValueError:
        return True
    return False
