"""The event loop of the programs: uvloop, which does the same as Python's own at a fraction of its cost a turn.

A run costs its worker some ten turns of the loop; with Python's own a sixth of the worker's time goes there. Processes
are not started by it (see ``worker.first_process``).
"""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import uvloop


class EventLoop(uvloop.Loop):
    """uvloop, but for names: libuv aborts the process where it cannot start the threads that look them up."""

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:
        """As asyncio's: in a thread of Python's, whose failure is an error."""
        return await self.run_in_executor(None, partial(socket.getaddrinfo, *arguments, **options))
