"""Sessions: made at a login, kept alive while they are used, ended by a logout, an administrator or time."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from common.access.credentials import ID_BYTES, MAX_AGENT, SECRET_BYTES, LoginSession, SessionWay, digest_of
from common.access.rights import Role
from common.access.subjects import Subject
from common.clock import Clock
from common.errors import ConflictError, NotFoundError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, answered, settle
from common.protocol import logins
from common.protocol.access_keys import AccessKeys
from common.protocol.txn import Put
from manager.access.directory import Directory, Versioned
from manager.access.keep_alive import IDLE_S

_log = logging.getLogger(__name__)

LONGEST_S: Final = 12 * 3600
MOST_OF_A_USER: Final = 20
"""One more login ends the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A new session. Its secrets are sent to the browser, and kept nowhere."""

    session: LoginSession
    secret: str = field(repr=False)
    second: str = field(repr=False)
    lasts_s: int


class Sessions:
    """Makes and ends them; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: AccessKeys, directory: Directory, *, clock: Clock, patience_s: float
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._directory = directory
        self._clock = clock
        self._patience_s = patience_s

    async def open(
        self, subject: Subject, *, way: SessionWay, address: str, agent: str, secure: bool, groups: Sequence[str] = (),
        role: Role | None = None, proof: str | None = None, lasts_s: int = LONGEST_S,
        stands_on: Sequence[tuple[str, int]] = (), replaces: Versioned[LoginSession] | None = None,
        puts: Sequence[Put] = (), deletes: Sequence[str] = (),
    ) -> Opened:  # fmt: skip
        """A new session, under a new secret. ConflictError: what it stands on has changed meanwhile.

        ``secure``: over TLS. ``stands_on``: keys with the revision of their last change, e.g. the user. ``replaces``:
        the session that the browser had before. ``puts``, ``deletes``: what else is done if it is made.
        """
        now_ms = self._clock.wall_ms()
        secret, second = secrets.token_hex(SECRET_BYTES), secrets.token_hex(SECRET_BYTES)
        session = LoginSession(
            id=secrets.token_hex(ID_BYTES), second=digest_of(second), subject=subject, groups=tuple(groups), way=way,
            role=role, proof=proof, created_ms=now_ms, expires_ms=now_ms + lasts_s * 1000, address=address,
            agent=agent[:MAX_AGENT], secure=secure,
        )  # fmt: skip
        lease = await self._etcd.lease_grant(min(IDLE_S, lasts_s))
        put = Put(self._keys.session(digest_of(secret)), session.to_json(), lease.id)
        ended = dict.fromkeys((*deletes, *(self._keys.session(one.digest) for one in self._beyond(subject))))
        if replaces is not None:
            ended[self._keys.session(replaces.digest)] = None
        txn = logins.open_session(put, stands_on=stands_on, puts=puts, deletes=list(ended))
        settled = await settle(self._etcd, self._clock, txn, self._patience(), partial(logins.earlier, txn))
        if not settled.done:
            raise ConflictError("the user, or the link, was changed or used at this very moment: try again")
        await self._directory.has_reached(settled.revision)
        extra = {"action": "session.opened", "caller": subject.name, "way": str(way), "address": address,
                 "session": session.id}  # fmt: skip
        _log.info("%s has logged in", subject.name, extra=extra)
        return Opened(session=session, secret=secret, second=second, lasts_s=lasts_s)

    def of(self, subject: Subject) -> list[Versioned[LoginSession]]:
        """Those of a user that are good, the newest first."""
        found = [
            held
            for held in self._directory.sessions.values()
            if held.record.subject == subject and self._directory.is_good_session(held)
        ]
        return sorted(found, key=lambda held: (held.record.created_ms, held.record.id), reverse=True)

    def get(self, session_id: str) -> Versioned[LoginSession]:
        """NotFoundError: there is none with this id."""
        held = self._directory.session(session_id)
        if held is None:
            raise NotFoundError("there is no such session (any more)")
        return held

    async def end(self, held: Versioned[LoginSession], *, by: str) -> None:
        """It is over, on all managers within a second."""
        txn = logins.end([self._keys.session(held.digest)])
        answer = await answered(partial(self._etcd.txn, txn), self._patience())
        await self._directory.has_reached(answer.revision)
        extra = {"action": "session.ended", "caller": held.record.subject.name, "by": by, "session": held.record.id}
        _log.info("a session of %s is ended by %s", held.record.subject.name, by, extra=extra)

    def _beyond(self, subject: Subject) -> list[Versioned[LoginSession]]:
        mine = [held for held in self._directory.sessions.values() if held.record.subject == subject]
        mine.sort(key=lambda held: (held.record.created_ms, held.record.id), reverse=True)
        return mine[MOST_OF_A_USER - 1 :][:MOST_OF_A_USER]

    def _patience(self) -> Patience:
        return Patience.until(self._clock.monotonic() + self._patience_s, self._clock)
