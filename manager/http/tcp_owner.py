"""Which system user made a TCP connection from this machine: the kernel knows whose each socket is.

sock_diag answers for exactly one connection, in microseconds; where there is none, ``/proc/net/tcp`` lists them all.

    caller's socket  127.0.0.1:40312 -> 127.0.0.1:8070      whose is it?
    ours             127.0.0.1:8070  -> 127.0.0.1:40312     still established, after the answer?

The second question is asked since a socket that is closed leaves its port to others: while our end is established, so
is the other, and no second socket has its addresses. A socket that no process holds any more is nobody's. The user is
the one who made the socket, also where it was handed on.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Any, Final

from common.errors import UnavailableError
from common.process.threads import beside

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLMSG_ERROR: Final = 2
_NLM_F_REQUEST: Final = 1
_HEADER: Final = struct.Struct("=IHHII")
_ANY_STATE: Final = 0xFFFFFFFF
_NO_COOKIE: Final = 0xFFFFFFFF
_ESTABLISHED: Final = 1
_ANSWER_BYTES: Final = 8192
_STATE_AT, _UID_AT, _INODE_AT = _HEADER.size + 1, _HEADER.size + 64, _HEADER.size + 68
_FILES_S: Final = 2.0

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NoAnswerError(Exception):
    """The kernel has no sock_diag, or does not let this process use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuple:
    """One end of a connection, as it sees itself."""

    local: Address
    local_port: int
    remote: Address
    remote_port: int

    @property
    def other(self) -> Tuple:
        """The same connection from its other end."""
        return Tuple(
            local=self.remote, local_port=self.remote_port, remote=self.local, remote_port=self.local_port
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A socket as the kernel shows it."""

    state: int
    uid: int
    inode: int

    @property
    def owner(self) -> int | None:
        """Whose it is. One that was closed has no inode, and is shown with the user 0."""
        return self.uid if self.inode and self.state == _ESTABLISHED else None


def uid_at_once(transport: asyncio.BaseTransport) -> int | None:
    """As `uid_at_other_end`, without waiting; None also where the kernel has no sock_diag."""
    ours = loopback_of(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
    try:
        return None if ours is None else by_sock_diag(ours.other)
    except NoAnswerError:
        return None


async def uid_at_other_end(transport: asyncio.BaseTransport) -> int | None:
    """Who made the socket at the other end; None: it is not on loopback, or that cannot be found out."""
    ours = loopback_of(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
    connection = transport.get_extra_info("socket")
    if ours is None or connection is None:
        return None
    try:
        uid = by_sock_diag(ours.other)
    except NoAnswerError:
        try:
            uid = await beside(lambda: by_files(ours.other), what="/proc/net/tcp", within_s=_FILES_S)
        except (UnavailableError, OSError):
            return None
    return uid if _is_established(connection) else None


def loopback_of(local: object, remote: object) -> Tuple | None:
    """Our end of a connection; None where one of its addresses is not loopback."""
    if not isinstance(local, tuple) or not isinstance(remote, tuple):
        return None
    here, there = _address(local[0]), _address(remote[0])
    if here is None or there is None or not (here.is_loopback and there.is_loopback):
        return None
    return Tuple(local=here, local_port=int(local[1]), remote=there, remote_port=int(remote[1]))


def _address(text: object) -> Address | None:
    try:
        address = ipaddress.ip_address(str(text).partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if address.version == 6 else address


def _is_established(connection: Any) -> bool:
    try:
        return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED)
    except OSError:
        return False


def by_sock_diag(end: Tuple) -> int | None:
    """Whose socket this is; None: no user's (any more). NoAnswerError."""
    found = _ask(end)
    if found is None and _ask(end.other) is None:
        raise NoAnswerError  # it does not know our own end either, which should be there
    return None if found is None else found.owner


def _ask(end: Tuple) -> _Found | None:
    family = socket.AF_INET if end.local.version == 4 else socket.AF_INET6
    request = (
        struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE)
        + struct.pack("!HH", end.local_port, end.remote_port)
        + end.local.packed.ljust(16, b"\0")
        + end.remote.packed.ljust(16, b"\0")
        + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    )
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    try:
        # The kernel has answered before `send` returns: there is nothing to wait for.
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as kernel:
            kernel.send(header + request)
            answer = kernel.recv(_ANSWER_BYTES)
    except OSError as error:
        raise NoAnswerError from error
    kind_of_answer = _HEADER.unpack_from(answer)[1]
    if kind_of_answer == _NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", answer, _HEADER.size)
        if number == -errno.ENOENT:
            return None
        raise NoAnswerError(os.strerror(-number))
    if kind_of_answer != _SOCK_DIAG_BY_FAMILY or len(answer) < _INODE_AT + 4:
        raise NoAnswerError("an answer of another kind")
    uid, inode = struct.unpack_from("=II", answer, _UID_AT)
    return _Found(state=answer[_STATE_AT], uid=uid, inode=inode)


def by_files(end: Tuple) -> int | None:
    """Whose socket this is, as ``/proc/net`` lists it; None: no user's. OSError."""
    if end.local.version == 6:
        return _listed("/proc/net/tcp6", end.local.packed, end.remote.packed, end)
    found = _listed("/proc/net/tcp", end.local.packed, end.remote.packed, end)
    if found is not None:
        return found
    mapped = b"\0" * 10 + b"\xff\xff"
    try:
        return _listed("/proc/net/tcp6", mapped + end.local.packed, mapped + end.remote.packed, end)
    except FileNotFoundError:  # this machine has no IPv6
        return None


def _listed(path: str, local: bytes, remote: bytes, end: Tuple) -> int | None:
    wanted = [f"{_spelled(local)}:{end.local_port:04X}", f"{_spelled(remote)}:{end.remote_port:04X}"]
    with open(path, encoding="ascii") as lines:
        for line in lines:
            parts = line.split()
            if parts[1:3] == wanted:
                return _Found(state=int(parts[3], 16), uid=int(parts[7]), inode=int(parts[9])).owner
    return None


def _spelled(packed: bytes) -> str:
    """As the kernel prints an address: its words in this machine's own order."""
    words = [packed[start : start + 4] for start in range(0, len(packed), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
