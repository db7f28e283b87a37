"""Tokens: made by their owner or, for a service account, by an administrator; shown once, and swept in the end."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from common.access.accounts import User
from common.access.credentials import ID_BYTES, SECRET_BYTES, Token, digest_of, spell_token
from common.access.rights import Role
from common.access.subjects import Subject, SubjectKind
from common.clock import Clock
from common.errors import ConflictError, EtcdError, NotFoundError, UnavailableError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, answered, settle
from common.protocol import logins
from common.protocol.access_keys import AccessKeys
from common.protocol.txn import Put
from manager.access.directory import Directory

_log = logging.getLogger(__name__)

MOST_DAYS: Final = 366
USUAL_DAYS: Final = 90
MOST_OF_AN_OWNER: Final = 100
_DAY_MS: Final = 86_400_000
_SHOWN_MS: Final = 7 * _DAY_MS
"""One that has expired is listed for so long, so that its owner sees why it is refused."""
_SWEEP_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A new token; its text is shown once to its maker, and kept nowhere."""

    token: Token
    text: str = field(repr=False)


class Tokens:
    """Makes and ends them; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: AccessKeys, directory: Directory, *, clock: Clock, patience_s: float,
        refuse_wrong_clock: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        """``refuse_wrong_clock``: raises ClockOffError where this clock may not say what has expired."""
        self._etcd = etcd
        self._keys = keys
        self._directory = directory
        self._clock = clock
        self._patience_s = patience_s
        self._refuse_wrong_clock = refuse_wrong_clock

    async def make(self, owner: Subject, *, name: str, days: int, role: Role | None, by: str) -> Made:
        """A new one. NotFoundError: there is no such service account; ConflictError: too many."""
        now_ms = self._clock.wall_ms()
        if len(self.of(owner)) >= MOST_OF_AN_OWNER:
            raise ConflictError(f"{owner} has {MOST_OF_AN_OWNER} tokens already: revoke one of them first")
        secret = secrets.token_hex(SECRET_BYTES)
        token = Token(
            id=secrets.token_hex(ID_BYTES), digest=digest_of(secret), owner=owner, name=name, role=role,
            created_ms=now_ms, expires_ms=now_ms + days * _DAY_MS, created_by=by,
        )  # fmt: skip
        owner_key, made_at, new_owner = self._owner(owner, now_ms, by)
        put = Put(self._keys.token(token.id), token.to_json())
        txn = logins.make_token(put, owner=(owner_key, made_at), new_owner=new_owner)
        settled = await settle(self._etcd, self._clock, txn, self._patience(), partial(logins.earlier, txn))
        if not settled.done:
            raise ConflictError(f"{owner} was removed or made anew at this very moment: look, and try again")
        await self._directory.has_reached(settled.revision)
        extra = {"action": "token.made", "owner": str(owner), "by": by, "token": token.id}
        _log.info("a token of %s is made by %s", owner, by, extra=extra)
        return Made(token=token, text=spell_token(token.id, secret))

    def of(self, owner: Subject | None) -> list[Token]:
        """Those of a user or a service account (None: of all), the newest first; also those that expired lately."""
        found = [held.record for held in self._directory.tokens.values() if owner in (None, held.record.owner)]
        return sorted(found, key=lambda token: (token.created_ms, token.id), reverse=True)

    def get(self, token_id: str) -> Token:
        """NotFoundError: there is none with this id."""
        held = self._directory.tokens.get(token_id)
        if held is None:
            raise NotFoundError("there is no such token (any more)")
        return held.record

    async def revoke(self, token: Token, *, by: str) -> None:
        """The token is no longer valid, on all managers within a second."""
        txn = logins.end([self._keys.token(token.id)])
        answer = await answered(partial(self._etcd.txn, txn), self._patience())
        await self._directory.has_reached(answer.revision)
        extra = {"action": "token.revoked", "owner": str(token.owner), "by": by, "token": token.id}
        _log.info("a token of %s is revoked by %s", token.owner, by, extra=extra)

    async def run(self) -> None:
        """Sweep, for ever: each manager does, at its own time. Not at its start: NTP may not have set the clock."""
        while True:
            await asyncio.sleep(_SWEEP_S * random.uniform(0.8, 1.2))
            await self._directory.synced.wait()
            await self.sweep()

    async def sweep(self) -> None:
        """What expired a week ago goes; nothing while this manager's clock is off."""
        try:
            await self._refuse_wrong_clock()
            before_ms = self._clock.wall_ms() - _SHOWN_MS
            for token_id, held in list(self._directory.tokens.items()):
                if held.record.expires_ms < before_ms:
                    await self._etcd.txn(logins.sweep_token(self._keys.token(token_id), held.changed_at))
                    extra = {"action": "token.swept", "owner": str(held.record.owner), "token": token_id}
                    _log.info("a token of %s is removed: it expired a week ago", held.record.owner, extra=extra)
        except (EtcdError, UnavailableError) as error:
            extra = {"action": "tokens.not_swept", "error": str(error)}
            _log.debug("expired tokens are swept later: %s", error, extra=extra)

    def _owner(self, owner: Subject, now_ms: int, by: str) -> tuple[str, int, Put | None]:
        """A user whom only a login provider knew gets a record: so they can be disabled here, with their tokens."""
        if owner.kind is SubjectKind.USER:
            key = self._keys.user(owner.name)
            user = self._directory.users.get(owner.name)
            if user is not None:
                return key, user.made_at, None
            made = User(name=owner.name, password=None, created_ms=now_ms, created_by=by, changed_ms=now_ms)
            return key, 0, Put(key, made.to_json())
        service = self._directory.services.get(owner.name) if owner.kind is SubjectKind.SERVICE else None
        if service is None:
            raise NotFoundError(f"there is no {owner}, or it owns no tokens")
        return self._keys.service(owner.name), service.made_at, None

    def _patience(self) -> Patience:
        return Patience.until(self._clock.monotonic() + self._patience_s, self._clock)
