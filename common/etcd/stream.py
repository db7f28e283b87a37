"""A two-way stream to one member (keep-alives, watches), whose failures are etcron's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from common.errors import EtcronError, UnavailableError
from common.etcd import _rpc, failures
from common.etcd.endpoints import Endpoints


class Stream:
    """Messages both ways, in order, until something fails; then it is over and has to be opened anew.

    UnavailableError: the stream broke or fell silent (the client turns to another member). EtcdRefusedError: etcd
    ended it with a definite word.
    """

    def __init__(
        self, call: Any, channel: _rpc.Channel, endpoints: Endpoints, *, what: str, forget_token: Callable[[], None]
    ) -> None:
        """`forget_token`: called when etcd does not take the token that the stream was opened with."""
        self._call = call
        self._channel = channel
        self._endpoints = endpoints
        self._what = what
        self._closed = False
        self._forget_token = forget_token

    @property
    def address(self) -> str:
        """The member at the other end."""
        return self._channel.address

    async def write(self, message: Any) -> None:
        """Sends a message; waits while the other end does not take it. Cancelling this ends the stream."""
        self._must_be_open()
        try:
            await self._call.write(message)
        except (_rpc.RpcError, _rpc.UsageError, asyncio.InvalidStateError) as error:
            raise self._failure(error) from error

    async def read(self) -> Any:
        """The next message. Cancelling this ends the stream."""
        self._must_be_open()
        try:
            message = await self._call.read()
        except (_rpc.RpcError, _rpc.UsageError, asyncio.InvalidStateError) as error:
            raise self._failure(error) from error
        if message is _rpc.END_OF_STREAM:
            raise self._broken("the member ended the stream")
        return message

    async def exchange(self, message: Any, *, timeout_s: float) -> Any:
        """Sends a message and returns the next one from the other end; UnavailableError when that takes too long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.write(message)
                return await self.read()
        except TimeoutError:
            raise self._broken(f"no answer within {timeout_s:g} s") from None

    def close(self) -> None:
        """Ends the stream at once."""
        self._closed = True
        self._call.cancel()

    def _must_be_open(self) -> None:
        # grpc answers a call on a cancelled stream with CancelledError, which would end the task of the caller.
        if self._closed:
            raise UnavailableError(f"{self._what} at {self.address} has ended. It is opened again.")

    def _failure(self, error: Exception) -> EtcronError:
        if failures.token_refused(error):
            self._forget_token()
        if isinstance(error, _rpc.RpcError) and failures.meaning_of(error) is failures.Meaning.REFUSED:
            return failures.refusal(error, what=self._what, address=self.address)
        return self._broken(failures.describe(error))

    def _broken(self, why: str) -> UnavailableError:
        self.close()
        self._endpoints.failed(self._channel, why)
        return UnavailableError(f"{self._what} at {self.address}: {why.rstrip('.')}. It is opened again.")
