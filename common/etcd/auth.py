"""Who this client is to etcd: a user's token, sent with every call, and another when etcd does not take it any more.

etcd's simple tokens end after five minutes without use, with a restart of etcd, with a change of the password, and
sometimes with a change of users or roles (`revision of auth store is old`). None of that says anything of a request
but that it was not carried out: so it may be sent again, and nothing else ever is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from common.clock import Clock
from common.errors import EtcdAccessError, EtcronError, Problem
from common.etcd import _rpc, failures
from common.process.threads import beside

_log = logging.getLogger(__name__)

_REFUSED_S = 2.0
"""For how long a refused password is not tried again: each try costs etcd a tenth of a second."""
_FORGET_EVERY_S = 10.0

SUPERUSER: Final = "root"
"""Whom etcd asks for no permissions."""
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdUser:
    """A user of etcd; the password is read when it is needed, so that a changed file counts."""

    name: str
    password: Callable[[], str] = field(repr=False)

    @classmethod
    def with_password(cls, name: str, password: str) -> EtcdUser:
        """One whose password is known."""
        return cls(name=name, password=lambda: password)

    @classmethod
    def with_password_file(cls, name: str, path: Path) -> EtcdUser:
        """One whose password stands in a file, without the line end after it."""
        return cls(name=name, password=lambda: path.read_text(encoding="utf-8").rstrip("\r\n"))


class NotAuthenticatedError(EtcronError):
    """The member did not answer the authentication: the call was not sent. Another member may answer."""


class Auth:
    """The token of one user, shared by all calls of a client; without a user there is none."""

    def __init__(self, user: EtcdUser | None, clock: Clock) -> None:
        self._user = user
        self._clock = clock
        self._asking = asyncio.Lock()
        self._metadata: Metadata | None = None if user is not None else _rpc.HAS_LEADER
        self._refused: EtcdAccessError | None = None
        self._since = float("-inf")  # the newest authentication, or refusal
        self.is_off = False
        """Whether there is a user, and etcd has answered that its authentication is off."""

    async def metadata(self, channel: _rpc.Channel, *, until: float) -> Metadata:
        """What goes with a call. NotAuthenticatedError: no answer; EtcdAccessError: etcd does not know this user."""
        if self._metadata is not None:
            return self._metadata
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.monotonic())), self._asking:
                if self._metadata is None:  # else another call has asked meanwhile
                    self._metadata = await self._authenticate(channel, until)
                return self._metadata
        except TimeoutError:
            raise NotAuthenticatedError("no answer to the authentication in time") from None

    def wants_renewal(self, error: Exception) -> bool:
        """Whether this refusal of a call is one of its token, for which a new one helps."""
        return self._user is not None and failures.token_refused(error)

    def forget(self, stale: Metadata) -> None:
        """This one is not taken any more: the next call asks for another."""
        if self._user is not None and self._metadata is stale:
            self._metadata = None

    def suspect(self) -> None:
        """A call had no answer in time. etcd does not answer a token that is ahead of its log, as after a restore."""
        if self._user is not None and self._clock.monotonic() - self._since >= _FORGET_EVERY_S:
            self._metadata = None

    async def _authenticate(self, channel: _rpc.Channel, until: float) -> Metadata:
        assert self._user is not None
        now = self._clock.monotonic()
        if self._refused is not None and now - self._since < _REFUSED_S:
            raise self._refused
        password = await beside(partial(_password, self._user), what="the file of etcd's password")
        request = _rpc.messages.AuthenticateRequest(name=self._user.name, password=password)
        try:
            answer = await channel.authenticate(request, timeout=max(0.001, until - now), metadata=_rpc.HAS_LEADER)
        except _rpc.RpcError as error:
            return self._without_token(channel, error)
        self._since, self._refused, self.is_off = self._clock.monotonic(), None, False
        extra = {"action": "etcd.authenticated", "endpoint": channel.address, "user": self._user.name}
        _log.debug("etcd at %s knows this user", channel.address, extra=extra)
        return (*_rpc.HAS_LEADER, ("token", answer.token))

    def _without_token(self, channel: _rpc.Channel, error: Exception) -> Metadata:
        """What an authentication that failed leaves: the right to go on without, or an error."""
        assert self._user is not None
        if failures.auth_is_off(error):
            if not self.is_off:
                extra = {"action": "etcd.auth_off", "endpoint": channel.address}
                _log.warning("etcd asks nobody for a password, and etcdUser is set: going on without", extra=extra)
            self.is_off = True
            return _rpc.HAS_LEADER
        if failures.meaning_of(error) is not failures.Meaning.REFUSED:
            raise NotAuthenticatedError(f"authentication: {failures.describe(error)}") from None
        self._since = self._clock.monotonic()
        message = f"etcd at {channel.address} does not know the user {self._user.name}, or not with this password"
        remedy = "mend etcdUser or its password (etcdPasswordFile is read again at each try)"
        self._refused = EtcdAccessError(Problem(field="etcdUser", message=message, remedy=remedy))
        raise self._refused from None


def _password(user: EtcdUser) -> str:
    try:
        return user.password()
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot be read ({getattr(error, 'strerror', None) or 'it is not text'})"
        problem = Problem(field="etcdPasswordFile", message=message, remedy="name a file that this user can read")
        raise EtcdAccessError(problem) from None
