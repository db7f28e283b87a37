"""The ways by which system users of this machine are known without a password: the kernel identifies them.

    Unix socket      its peer, by uid and groups: the manager's own user and root may do everything, others have
                     bindings of uid:N and gid:N, or are refused
    TCP, loopback    a connection that the manager's own user made (``trustOwner``): the owner

A request that is passed on for another user has a header that says so, and is unknown here: its proxy's user is not the
caller. Proxies that send no such header have to run as a user without rights.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from aiohttp import web

from common.access.callers import Identity, Via
from common.access.subjects import Subject, SubjectKind
from common.errors import ForbiddenError
from manager.http.peers import is_forwarded, other_end
from manager.http.tcp_owner import uid_at_other_end

_ROOT = 0


class SocketWay:
    """A caller through the Unix socket."""

    def __init__(self, *, proxy_uid: int | None = None) -> None:
        """``proxy_uid``: of the proxy that names users; the proxy itself is not let in."""
        self._owners = frozenset({os.geteuid(), _ROOT})
        self._proxy_uid = proxy_uid

    async def __call__(self, request: web.Request) -> Identity | None:
        peer = other_end(request).peer
        if peer is None or peer.uid == self._proxy_uid:
            return None
        if is_forwarded(request):
            raise ForbiddenError(
                "this request is passed on for somebody else, and the Unix socket knows only who has connected to it; "
                "have the proxy use the port, or name its user in proxyUid"
            )
        if peer.uid in self._owners:
            return _owner(peer.uid)
        subjects = {
            Subject(SubjectKind.UID, str(peer.uid)), *(Subject(SubjectKind.GID, str(gid)) for gid in peer.gids)
        }  # fmt: skip
        return Identity(name=str(peer), subjects=frozenset(subjects), via=Via.SOCKET)


class OwnerWay:
    """A caller over loopback whose connection the manager's own user made."""

    def __init__(self, *, proxies: Collection[str]) -> None:
        self._uid = os.geteuid()
        self._proxies = frozenset(proxies)

    async def __call__(self, request: web.Request) -> Identity | None:
        transport = request.transport
        if transport is None or request.remote in self._proxies or is_forwarded(request):
            return None
        end = other_end(request)
        if end.peer is not None:
            return None
        if end.is_owner is None:
            end.is_owner = await uid_at_other_end(transport) == self._uid
        return _owner(self._uid) if end.is_owner else None


def _owner(uid: int) -> Identity:
    return Identity(name=f"uid {uid}", subjects=frozenset({Subject(SubjectKind.UID, str(uid))}), via=Via.OWNER)
