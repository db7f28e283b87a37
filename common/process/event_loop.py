"""The event loop of the programs: uvloop, which does the same as Python's own at a fraction of its cost a turn.

A run costs its worker some ten turns of the loop; with Python's own a sixth of the worker's time goes there. Processes
are not started by it (see ``worker.commands.first_process``).
"""

from __future__ import annotations

import socket
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeGuard

import uvloop


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
