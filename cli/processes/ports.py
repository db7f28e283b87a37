"""Which TCP ports of this machine are free, and who has those that are not; no port is chosen by two at once."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

import psutil


class PortClaims:
    """The ports that this process has chosen: until it closes them, no other `etcron up` is given one of them.

    Between choosing a port and listening there lies the start of a server, in which another `etcron up` would find the
    same port free. A claim is a Unix socket with an abstract name that has the address and the port in it: like a port
    it belongs to the network namespace, one process has it at a time, and it goes when the process does.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for claim in self._held.values():
            claim.close()
        self._held.clear()

    def take(self, port: int, *, host: str = "127.0.0.1") -> bool:
        """Whether the port is ours from now on; not where it is in use there, or ours anywhere."""
        if port in self._held:
            return False
        _, address = _resolved(host, port)
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0etcron-port-{address[0]}-{port}")
        except OSError as error:
            claim.close()
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        self._held[port] = claim
        return True

    def take_free(self, preferred: Iterable[int]) -> int:
        """The first of the preferred ports that is free on 127.0.0.1, and not taken, else any such one; now ours."""
        for port in preferred:
            with suppress(PermissionError):
                if is_free("127.0.0.1", port) and self.take(port):
                    return port
        while not self.take(port := free_loopback_port()):
            pass
        return port


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now. Raises OSError where the address itself is not of this machine, or this
    user may not listen on the port (PermissionError).
    """
    family, address = _resolved(host, port)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)  # with SO_REUSEADDR two may bind, but only one may listen
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def free_loopback_port() -> int:
    """A port that was free on 127.0.0.1 just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def holder_of(port: int) -> str:
    """ " by etcd (pid 7)" where the system tells who listens on the port, else the empty text."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return ""
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
        if listens and connection.pid:
            try:
                name = psutil.Process(connection.pid).name()
            except psutil.Error:
                name = "a process"
            return f" by {name} (pid {connection.pid})"
    return ""


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    return family, address
