"""The members of the cluster: which one is used, and what is known about those that failed.

One is used for everything until it fails; then the next in the given order that can be connected to. A call is given
a member only while its connection is ready: so "no member could be connected to" means that nothing was sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial

from common.clock import Clock
from common.errors import ConfigError, EtcdAwayError, Problem, UnavailableError
from common.etcd import _rpc, failures
from common.etcd.certificates import Certificates, tls_problem
from common.process.threads import HungError, beside
from common.tls import TlsFiles

_log = logging.getLogger(__name__)

CONNECT_S = 2.0
"""How long one member may take to be connected to before the next is tried."""
_TLS_ASKED_S = 5.0
"""How long the reason for a failed handshake counts."""


def parse_endpoints(endpoints: Sequence[str], *, tls: bool = False) -> tuple[str, ...]:
    """`host:port` of each endpoint. ConfigError naming every endpoint that is not usable."""
    problems = [problem for endpoint in endpoints if (problem := _problem(endpoint, tls)) is not None]
    if not endpoints:
        problems = [Problem(field="endpoints", message="none given", remedy="name at least one, e.g. 127.0.0.1:2379")]
    if problems:
        raise ConfigError(problems)
    return tuple(dict.fromkeys(map(_address, endpoints)))


def _address(endpoint: str) -> str:
    return endpoint.strip().removeprefix("http://").removeprefix("https://").rstrip("/")


def _problem(endpoint: str, tls: bool) -> Problem | None:
    address = _address(endpoint)
    host, _, port = address.rpartition(":")
    if "://" in address or "/" in address or not host or not port.isdigit() or not 0 < int(port) < 65536:
        return Problem(
            field="endpoints",
            message=f"{endpoint!r} is not the address of an etcd member",
            remedy="write host:port, e.g. 127.0.0.1:2379",
        )
    if tls == endpoint.strip().startswith("https://"):
        return None
    message = f"{endpoint!r} is without TLS, and etcdTls is given" if tls else f"{endpoint!r} asks for TLS"
    remedy = f"write https://{address}" if tls else "give etcdTls: at least the ca that signed its certificate"
    return Problem(field="endpoints", message=message, remedy=remedy)


class Endpoints:
    """A channel to each member, of which the first that works is used."""

    def __init__(self, endpoints: Sequence[str], *, clock: Clock, tls: TlsFiles | None = None) -> None:
        self.addresses = parse_endpoints(endpoints, tls=tls is not None)
        self._clock = clock
        self._certificates = Certificates(tls) if tls is not None else None
        self._tls_problems: dict[str, tuple[float, Problem | None]] = {}
        self._channels: dict[str, _rpc.Channel] = {}
        self._current = 0
        self._closed = False

    @property
    def current(self) -> str:
        """The address of the member that the next call goes to, if it can be connected to."""
        return self.addresses[self._current]

    async def connected(self, deadline: float, *, avoid: Collection[str] = ()) -> _rpc.Channel | None:
        """A channel that is connected, not to one of those to avoid; None where there is none (before the deadline)."""
        current = self._channel(self.current)
        if not avoid and current.state() is _rpc.READY:
            return current
        for offset in range(len(self.addresses)):
            index = (self._current + offset) % len(self.addresses)
            address = self.addresses[index]
            if address not in avoid and await self._connects(self._channel(address), deadline):
                self._use(index)
                return self._channel(address)
        return None

    def failed(self, channel: _rpc.Channel, why: str) -> None:
        """The member did not answer properly: later calls go to the next one."""
        if len(self.addresses) > 1 and channel.address == self.current:
            index = (self._current + 1) % len(self.addresses)
            extra = {"action": "etcd.failed", "endpoint": channel.address}
            _log.warning("etcd at %s: %s", channel.address, why, extra=extra)
            self._use(index)

    async def channel_to(self, address: str, deadline: float) -> _rpc.Channel | None:
        """A channel to this very member, or None where it cannot be connected to before the deadline."""
        if address not in self.addresses:
            raise ValueError(f"{address} is none of this client's endpoints: {', '.join(self.addresses)}")
        channel = self._channel(address)
        return channel if await self._connects(channel, deadline) else None

    async def unreachable(self, what: str, why: dict[str, str], *, among: Sequence[str] = ()) -> UnavailableError:
        """The error for a call that no member took; `why` has what is known, the rest is asked for here."""
        addresses = among or self.addresses
        reasons = {address: why.get(address) or await self._why(address) for address in addresses}
        extra = {"action": "etcd.unanswered", "asked": what, "reasons": reasons}
        _log.debug("no etcd took %s", what, extra=extra)
        # For people: which members, and why, each reason once. What was asked of them, the log tells.
        short = {address: failures.in_short(words) for address, words in reasons.items()}
        by_reason = dict.fromkeys(short.values())
        faults = [
            reason if len(by_reason) == 1 else f"{', '.join(one for one in short if short[one] == reason)}: {reason}"
            for reason in by_reason
        ]
        return EtcdAwayError(", ".join(short), "; ".join(faults))

    async def close(self) -> None:
        """Ends every connection."""
        self._closed = True
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    def _use(self, index: int) -> None:
        if index != self._current:
            self._current = index
            extra = {"action": "etcd.endpoint", "endpoint": self.current}
            _log.info("etcd at %s is used now", self.current, extra=extra)

    def _channel(self, address: str) -> _rpc.Channel:
        # Made when first used: grpc ties a channel to the event loop that runs then.
        if self._closed:
            raise UnavailableError("this etcd client has been closed")
        channel = self._channels.get(address)
        if channel is None:
            if _rpc.lacks_descriptors():
                raise UnavailableError("etcd is not asked: this process has no file descriptors to spare")
            if self._certificates is None:
                channel = _rpc.Channel(address)
            else:
                name = self._certificates.files.server_name
                channel = _rpc.Channel(address, credentials=self._certificates.credentials, server_name=name)
            self._channels[address] = channel
        return channel

    async def _connects(self, channel: _rpc.Channel, deadline: float) -> bool:
        """Whether the channel is ready, or becomes so at its next attempt."""
        try:
            async with asyncio.timeout(max(0.0, min(CONNECT_S, deadline - self._clock.monotonic()))):
                while (state := channel.state()) not in (_rpc.READY, _rpc.TRANSIENT_FAILURE):
                    await channel.state_other_than(state)
        except (TimeoutError, _rpc.UsageError):  # or the client is being closed
            return False
        if state is not _rpc.READY:
            await self._renew_certificates()
        return state is _rpc.READY

    async def _renew_certificates(self) -> None:
        """Where the files have changed, the channels that do not work are made anew with them when next used.

        The old ones are let go of, and not closed: a member that is being stopped takes no connection any more, and
        still answers the calls that it has. Closing would end those as if their own tasks had been cancelled; so a
        channel ends with the last call on it.
        """
        if self._certificates is None:
            return
        try:
            look = partial(self._certificates.renewed, self._clock.monotonic())
            renewed = await beside(look, what="the files of etcdTls")
        except HungError as error:
            _log.warning("certificates are not looked at: %s", error, extra={"action": "etcd.certificates_hung"})
            return
        if renewed:
            for address, channel in list(self._channels.items()):
                if channel.state() is _rpc.TRANSIENT_FAILURE:
                    del self._channels[address]

    async def _why(self, address: str) -> str:
        """Why this member cannot be connected to: what TLS has against it, else grpc's words."""
        try:
            await self._channel(address).status(_rpc.messages.StatusRequest(), timeout=0.2)
        except (_rpc.RpcError, _rpc.UsageError) as error:
            words = failures.describe(error)
        else:
            words = "could not be connected to in time"
        problem = None if "refused" in words else await self.tls_problem(address)
        return words if problem is None else str(problem)

    async def tls_problem(self, address: str) -> Problem | None:
        """What TLS has against this member, as asked within the last few seconds."""
        asked, problem = self._tls_problems.get(address, (float("-inf"), None))
        if self._clock.monotonic() - asked >= _TLS_ASKED_S:
            files = self._certificates.files if self._certificates is not None else None
            problem = await tls_problem(address, files)
            self._tls_problems[address] = (self._clock.monotonic(), problem)
        return problem
