"""A member of etcd that is being stopped: it takes no connection any more, and answers the calls that it has when told.

Only as much of it as that takes: etcd itself does so within milliseconds, or not for as long as it has no quorum.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped,unused-ignore]
import grpc.aio  # type: ignore[import-untyped,unused-ignore]

from common.etcd import _rpc
from tests.support.certificates import Authority

_GRACE_S = 20.0


class StoppingMember:
    """One range and one watch; each is answered, with nothing, once `answer` is called."""

    def __init__(self, authority: Authority) -> None:
        pair, messages = authority.pair("stopping", "127.0.0.1"), _rpc.messages
        self._server: Any = grpc.aio.server()
        self._told = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self.calls = 0
        """How many have come."""
        reads = grpc.unary_unary_rpc_method_handler(
            self._range, messages.RangeRequest.FromString, messages.RangeResponse.SerializeToString
        )
        watches = grpc.stream_stream_rpc_method_handler(
            self._watch, messages.WatchRequest.FromString, messages.WatchResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler("etcdserverpb.KV", {"Range": reads}),
            grpc.method_handlers_generic_handler("etcdserverpb.Watch", {"Watch": watches}),
        ))  # fmt: skip
        credentials = grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.cert.read_bytes())])
        self._port = self._server.add_secure_port("127.0.0.1:0", credentials)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    async def start(self) -> None:
        await self._server.start()

    def stop(self) -> None:
        """No connection is taken from now on."""
        self._stopping = asyncio.create_task(self._server.stop(_GRACE_S))

    def answer(self) -> None:
        """Who waits gets an answer."""
        self._told.set()

    async def close(self) -> None:
        self.answer()
        if self._stopping is not None:
            await self._stopping
        await self._server.stop(None)

    async def _range(self, _request: Any, _context: Any) -> Any:
        self.calls += 1
        await self._told.wait()
        return _rpc.messages.RangeResponse()

    async def _watch(self, _requests: Any, _context: Any) -> AsyncIterator[Any]:
        self.calls += 1
        await self._told.wait()
        yield _rpc.messages.WatchResponse()


@asynccontextmanager
async def stopping_member(authority: Authority) -> AsyncIterator[StoppingMember]:
    """One that runs, and is gone afterwards."""
    member = StoppingMember(authority)
    await member.start()
    try:
        yield member
    finally:
        await member.close()
