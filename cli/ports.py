"""Which TCP ports of this machine are free, and who has those that are not."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

import psutil


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now. Raises OSError where the address itself is not of this machine."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)  # with SO_REUSEADDR two may bind, but only one may listen
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def free_loopback_port(preferred: Iterable[int], *, taken: Iterable[int] = ()) -> int:
    """The first of the preferred ports that is free on 127.0.0.1 and not among `taken`, else any free one."""
    avoid = set(taken)
    for port in preferred:
        if port not in avoid and is_free("127.0.0.1", port):
            return port
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in avoid:
            return port


def holder_of(port: int) -> str:
    """ " by etcd (pid 7)" where the system tells who listens on the port, else the empty text."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return ""
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
        if listens and connection.pid:
            return f" by {_name(connection.pid)} (pid {connection.pid})"
    return ""


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "a process"
