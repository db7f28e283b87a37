"""How calls reach a member: connected first, with a token where there is a user, within one deadline; and what a
failure says of the request.

    connected --> token --> sent --answered
        ^           |         |--refused: the token     --> a new token, and sent once more
        |           |         |--refused                --> EtcdRefusedError
        |           |         |--turned away unread     --+
        +-----------+---------+-- a read that failed    --+  another member, as long as there is time
                              `--a write that failed    --> EtcdInDoubtError
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from common.clock import Clock
from common.errors import EtcdFullError, EtcdInDoubtError, EtcronError, UnavailableError
from common.etcd import _rpc, failures
from common.etcd.auth import Auth, Metadata, NotAuthenticatedError
from common.etcd.endpoints import Endpoints
from common.etcd.failures import Meaning


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


_log = logging.getLogger(__name__)


class AnswerTooLargeError(UnavailableError):
    """etcd's answer is larger than this client takes; ask for less."""


class Calls:
    """Sends requests to the member in use, and turns their failures into etcron's errors."""

    def __init__(self, endpoints: Endpoints, auth: Auth, *, timeout_s: float, clock: Clock) -> None:
        self._endpoints = endpoints
        self._auth = auth
        self._timeout_s = timeout_s
        self._clock = clock

    async def read(self, method: str, request: Any, *, what: str, within_s: float = inf) -> Any:
        """The answer of whichever member answers; UnavailableError: none did, EtcdRefusedError: one refused."""
        deadline = min(self._deadline(), self._clock.monotonic() + within_s)
        why: dict[str, str] = {}
        while (channel := await self._endpoints.connected(deadline, avoid=why)) is not None:
            last = len(why) + 1 >= len(self._endpoints.addresses)
            # Half of what is left: a member that does not answer leaves time to ask another.
            until = deadline if last else deadline - self._left(deadline) / 2
            try:
                return await self._sent(channel, method, request, until=until)
            except NotAuthenticatedError as error:
                self._failed(channel, error, why)
            except _rpc.RpcError as error:
                if failures.meaning_of(error) is Meaning.REFUSED:
                    raise failures.refusal(error, what=what, address=channel.address) from error
                if failures.answer_too_large(error):
                    raise AnswerTooLargeError(f"etcd's answer to {what} is larger than this client takes") from error
                self._failed(channel, error, why)
        raise await self._endpoints.unreachable(what, why)

    async def write(self, method: str, request: Any, *, what: str) -> Any:
        """The answer; sent to one member only, but for those that certainly did not look at it."""
        deadline = self._deadline()
        why: dict[str, str] = {}
        while (channel := await self._endpoints.connected(deadline, avoid=why)) is not None:
            try:
                return await self._sent(channel, method, request, until=deadline)
            except NotAuthenticatedError as error:  # before the call was sent, or after it was turned away unread
                self._failed(channel, error, why)
            except _rpc.RpcError as error:
                match failures.meaning_of(error):
                    case Meaning.REFUSED:
                        raise failures.refusal(error, what=what, address=channel.address) from error
                    case Meaning.IN_DOUBT:
                        self._failed(channel, error, why)
                        extra = {"action": "etcd.in_doubt", "asked": what, "endpoint": channel.address}
                        _log.debug("%s gave no answer to %s", channel.address, what, extra=extra)
                        in_doubt = EtcdFullError if failures.database_full(error) else EtcdInDoubtError
                        raise in_doubt(
                            f"etcd ({channel.address}) gave no answer: "
                            f"{failures.in_short(why[channel.address])}; it may or may not have been carried out"
                        ) from error
                    case Meaning.TURNED_AWAY:
                        self._failed(channel, error, why)
        raise await self._endpoints.unreachable(what, why)

    async def ask(self, address: str, *questions: tuple[str, Any], what: str) -> list[Any]:
        """The answers of this very member to several questions that change nothing."""
        deadline = self._deadline()
        channel = await self._endpoints.channel_to(address, deadline)
        why: dict[str, str] = {}
        if channel is not None:
            try:
                return [await self._sent(channel, method, request, until=deadline) for method, request in questions]
            except NotAuthenticatedError as error:
                self._failed(channel, error, why)
            except _rpc.RpcError as error:
                if failures.meaning_of(error) is Meaning.REFUSED:
                    raise failures.refusal(error, what=what, address=address) from error
                self._failed(channel, error, why)
        raise await self._endpoints.unreachable(what, why, among=(address,))

    async def stream(self, method: str, *, what: str) -> Stream:
        """A stream to the member in use."""
        deadline = self._deadline()
        channel = await self._endpoints.connected(deadline)
        if channel is None:
            raise await self._endpoints.unreachable(what, {})
        try:
            metadata = await self._auth.metadata(channel, until=deadline)
        except NotAuthenticatedError as error:
            why: dict[str, str] = {}
            self._failed(channel, error, why)
            raise await self._endpoints.unreachable(what, why) from error
        call = getattr(channel, method)(metadata=metadata)
        forget = partial(self._auth.forget, metadata)
        return Stream(call, channel, self._endpoints, what=what, forget_token=forget)

    async def _sent(self, channel: _rpc.Channel, method: str, request: Any, *, until: float) -> Any:
        """The answer to a call that is sent once, and a second time only where its token was what etcd refused."""
        metadata = await self._auth.metadata(channel, until=until)
        try:
            return await self._answer(channel, method, request, metadata, until)
        except _rpc.RpcError as error:
            if not self._auth.wants_renewal(error):
                raise
        self._auth.forget(metadata)  # also where there is no time left to ask for another
        metadata = await self._auth.metadata(channel, until=until)
        try:
            return await self._answer(channel, method, request, metadata, until)
        except _rpc.RpcError as error:
            if failures.token_refused(error):
                self._auth.forget(metadata)
            raise

    async def _answer(self, channel: _rpc.Channel, method: str, request: Any, metadata: Metadata, until: float) -> Any:
        return await getattr(channel, method)(request, timeout=self._left(until), metadata=metadata)

    def _failed(self, channel: _rpc.Channel, error: Exception, why: dict[str, str]) -> None:
        authenticating = isinstance(error, NotAuthenticatedError)
        why[channel.address] = str(error) if authenticating else failures.describe(error)
        code = _rpc.code_of(error)
        if code in ("DEADLINE_EXCEEDED", "CANCELLED"):  # the deadline as etcd saw it: it may be the first to
            self._auth.suspect()
        if code != "RESOURCE_EXHAUSTED":  # no space: true of every member
            self._endpoints.failed(channel, why[channel.address])

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._timeout_s

    def _left(self, deadline: float) -> float:
        return max(0.001, deadline - self._clock.monotonic())
