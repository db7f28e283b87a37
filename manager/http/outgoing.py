"""What this manager asks of others by HTTP: the login provider, and webhooks.

Each answer has a deadline and a limit of size, no redirect is followed, no proxy of the environment is used, and names
are looked up beside the loop. A webhook's address is some user's choice, so it must not reach what only this machine or
its network can: `Reach` says which addresses it may have. That is asked for each connection, of the address that
is connected to: a name may mean another one than when the channel was saved.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from common.errors import EtcronError
from common.process.threads import Places

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_OTHERS_WITHIN: Final = tuple(
    map(ipaddress.ip_network, ("::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)
"""An IPv4 address stands in each of them: mapped, NAT64, 6to4, Teredo."""


class TooLongError(EtcronError):
    """The answer is longer than it may be."""


class RefusedAddressError(OSError):
    """A connection to an address that is of an inner network, which noticeNetworks does not allow."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Public addresses, and these networks besides."""

    networks: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, networks: Sequence[str]) -> Reach:
        return cls(tuple(map(ipaddress.ip_network, networks)))

    def refusal(self, host: str) -> str | None:
        """Why nothing is sent to this address; None: it may be, or it is a name."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return None
        if any(address in network for network in self.networks):
            return None
        is_inner = not address.is_global or address.is_multicast or address.is_reserved
        if is_inner or any(address in network for network in _OTHERS_WITHIN):
            return f"{address} is no public address, and not in noticeNetworks"
        return None

    def open_socket(self, found: tuple[Any, ...]) -> socket.socket:
        """For aiohttp, which asks before each connection. RefusedAddressError."""
        family, kind, protocol, _, address = found
        if (why := self.refusal(str(address[0]))) is not None:
            raise RefusedAddressError(errno.EACCES, why)
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        return opened


def refusal_of(url: str, reach: Reach) -> str | None:
    """What speaks against sending to this URL that can be told without looking its name up; None: nothing."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme not in ("http", "https") or not host:
        return "is no http:// or https:// URL with a host"
    if "@" in parts.netloc:
        return "has a user or a password in it"
    if any(not "!" <= character <= "~" or character == "\\" for character in url):
        return "has characters that no URL has"
    return reach.refusal("127.0.0.1" if host == "localhost" or host.endswith(".localhost") else host)


async def ask(
    method: str, url: str, *, tls: ssl.SSLContext, most_bytes: int, names: Names, reach: Reach | None = None,
    on_status: Callable[[int], None] | None = None, **options: Any,
) -> tuple[int, bytes]:  # fmt: skip
    """The status and the content; the caller gives it a deadline.

    aiohttp.ClientError, OSError, EtcronError: there is no answer. TooLongError: it has more bytes. ``reach``: None
    where the address is the administrator's own. ``on_status`` hears of the status before the content is read.
    """
    connector = aiohttp.TCPConnector(
        resolver=names, ssl=tls, force_close=True, socket_factory=None if reach is None else reach.open_socket
    )
    session = aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False,
        headers={"User-Agent": "etcron", "Accept-Encoding": "identity"}, max_line_size=8190, max_field_size=8190,
    )  # fmt: skip
    async with session, session.request(method, url, allow_redirects=False, **options) as answer:
        if on_status is not None:
            on_status(answer.status)
        content = bytearray()
        async for piece in answer.content.iter_chunked(65_536):
            content += piece
            if len(content) > most_bytes:
                raise TooLongError(f"the answer at {url} is longer than {most_bytes:,} bytes")
        return answer.status, bytes(content)


async def ask_for_status(method: str, url: str, *, within_s: float, **options: Any) -> tuple[int, bytes]:
    """As `ask`, where the status alone counts: content that is too long, too late or breaks off is left out.

    TimeoutError: there is no status in time.
    """
    statuses: list[int] = []
    try:
        async with asyncio.timeout(within_s):
            return await ask(method, url, on_status=statuses.append, **options)
    except (TimeoutError, aiohttp.ClientError, OSError, EtcronError):
        if statuses:
            return statuses[0], b""
        raise


class Names(AbstractResolver):
    """Names beside the loop, in threads that a name service which hangs does not use up for all else."""

    def __init__(self) -> None:
        self._places = Places()

    async def addresses(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[tuple[Any, ...]]:
        """As `socket.getaddrinfo` has them. OSError, UnavailableError."""
        return await self._places.beside(
            lambda: list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)),
            what=f"the address of {host}",
        )

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """For aiohttp."""
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST
            )
            for kind, _, protocol, _, address in await self.addresses(host, port, family)
        ]

    async def close(self) -> None:
        """Nothing is kept."""
