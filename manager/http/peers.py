"""Who is at the other end of a connection from this machine, as the kernel says; no header is asked."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

from aiohttp import web

_CREDENTIALS: Final = struct.Struct("=iII")
_PEER_GROUPS: Final = 59
"""SO_PEERGROUPS, which the standard library does not name."""
_MOST_BYTES: Final = 1024
"""Of one option, as far as the standard library reads it: 256 groups."""
PROXY_SECRET: Final = "X-Etcron-Proxy-Secret"
_FORWARDED: Final = (
    "Forwarded", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "Via", PROXY_SECRET,
)  # fmt: skip
_FORWARDED_BEGINS: Final = ("x-forwarded", "x-original-")


@dataclass(frozen=True, slots=True)
class Peer:
    """The system user that connected to the Unix socket, and its groups, as they were when it connected."""

    uid: int
    gids: frozenset[int]

    def __str__(self) -> str:
        return f"uid {self.uid}"


@dataclass(slots=True)
class OtherEnd:
    """What is known about the other end of one connection."""

    peer: Peer | None = None
    """None: the connection did not come through the Unix socket."""
    is_owner: bool | None = None
    """Of a TCP connection: whether a process of this manager's own user made it. None: it has not been looked up."""


def other_end(request: web.BaseRequest) -> OtherEnd:
    """Of the connection that the request came by; kept with the connection."""
    end = getattr(request.protocol, "other_end", None)
    return end if isinstance(end, OtherEnd) else OtherEnd()


def peer_uid(request: web.Request) -> int | None:
    """Which system user calls through the Unix socket; None: the call did not come through it."""
    peer = other_end(request).peer
    return None if peer is None else peer.uid


def is_forwarded(request: web.BaseRequest) -> bool:
    """Whether a header says that another caller's request is passed on, or the proxy's certificate came with it."""
    if any(name in request.headers for name in _FORWARDED):
        return True
    if any(name.casefold().startswith(_FORWARDED_BEGINS) for name in request.headers):
        return True
    return request.transport is not None and bool(request.transport.get_extra_info("peercert"))


def peer_of(connection: socket.socket) -> Peer | None:
    """Who connected; None where this is no Unix socket. No name is looked up.

    Of a user with more than 256 groups only the first is known: they may do less, never more.
    """
    if connection.family != socket.AF_UNIX:
        return None
    _, uid, gid = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )  # fmt: skip
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, _PEER_GROUPS, _MOST_BYTES)
    except OSError:
        found = b""
    return Peer(uid, frozenset({gid, *(number for (number,) in struct.iter_unpack("=I", found))}))
