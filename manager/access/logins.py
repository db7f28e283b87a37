"""Logging in: by a password, or by a link that works once.

A name that there is not, a user without a password and one who is disabled cost the same work as a wrong password, and
get the same answer. How often a caller may try: :mod:`manager.access.backoff`. A cookie that the browser brings is
never adopted: each login is a new session under a new secret.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from common.access.accounts import User
from common.access.credentials import (
    SECRET_BYTES,
    Link,
    LoginSession,
    SessionWay,
    digest_of,
)
from common.access.rights import Role
from common.access.subjects import Subject, SubjectKind
from common.clock import Clock
from common.errors import ForbiddenError, InvalidInputError, Problem
from common.etcd import EtcdClient
from common.protocol.access_keys import AccessKeys
from common.protocol.txn import Put
from manager.access.backoff import Backoff, Try
from manager.access.directory import Directory, Versioned
from manager.access.passwords import Passwords, TooManyLoginsError
from manager.access.sessions import LONGEST_S, Opened, Sessions
from manager.http.allowances import network_of
from manager.http.errors import RequestError

_log = logging.getLogger(__name__)

LINK_S: Final = 600
"""A link is good for so long by default."""
MOST_STRANGERS: Final = 20
"""Logins with neither a browser nor a password that is known, checked or waiting at a time; beyond, 503."""
_OF_A_NETWORK: Final = 5
"""Of these, and of those that are known, at a time from one address; only others from there wait for them.
What succeeds counts as no try: so a user with a password could take all places for ever.
"""
_NONCE_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """Where a login comes from."""

    address: str
    agent: str
    secure: bool
    """Whether it comes over TLS."""
    device: str | None = None
    """Its device cookie."""
    session: Versioned[LoginSession] | None = None
    """What it was logged in with before, which ends."""


class Logins:
    """Opens sessions: by a password, or by a link that works once."""

    def __init__(
        self, etcd: EtcdClient, keys: AccessKeys, directory: Directory, sessions: Sessions, passwords: Passwords, *,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._etcd = etcd
        self._keys = keys
        self._directory = directory
        self._sessions = sessions
        self._passwords = passwords
        self._clock = clock
        self._backoff = Backoff(clock=clock)
        self._strangers = 0
        self._one_stranger = asyncio.Lock()
        """Of the two passwords that are compared at a time, one place is left to known browsers and passwords."""
        self._networks: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By address, during logins from there."""

    @property
    def takes_passwords(self) -> bool:
        """Whether any user has one."""
        return any(held.record.password is not None for held in self._directory.users.values())

    async def by_password(self, name: str, password: str, by: From) -> tuple[Opened, str]:
        """A new session, and what the browser is known by from now on.

        RequestError: 401, the name or the password is wrong; 429, too many tries. UnavailableError.
        """
        await self._directory.ready(True)
        held = self._directory.users.get(name)
        user = None if held is None or held.record.disabled else held.record
        tried = self._backoff.begin(account=name, address=by.address, device=_known_device(user, by.device))
        # A refusal (503) uses a try, too: it shows that the password is none that was right before.
        if not await self._is_right(user, password, by=by, is_known=_known_device(user, by.device) is not None):
            who = name if held is not None else "a name that there is not"  # which may be a user's password
            extra = {"action": "login.failed", "caller": who, "address": by.address}
            _log.warning("a login as %s from %s failed", who, by.address, extra=extra)
            raise RequestError(401, "the name or the password is wrong", code="login-failed")
        assert held is not None
        assert user is not None
        tried.give_back()
        key, puts = self._keys.user(user.name), []
        assert user.password is not None
        if self._passwords.is_dated(user.password):
            user = replace(user, password=await self._passwords.hash(password))
            puts = [Put(key, user.to_json())]
        opened = await self._sessions.open(
            user.subject, way=SessionWay.PASSWORD, proof=_proof(user), address=by.address, agent=by.agent,
            secure=by.secure, stands_on=[(key, held.changed_at)], puts=puts, replaces=by.session,
        )  # fmt: skip
        return opened, new_device(user)

    async def by_link(self, secret: str, by: From) -> tuple[Opened, str]:
        """The session that a one-time link is for, and why that was made.

        RequestError: 401, there is no such link (any more); 429. No caller guesses one, so only what is no link counts
        as a try: others at the same address, as jobs on this machine are, never keep out the user who has one.
        """
        await self._directory.ready(True)
        key = self._keys.link(digest_of(secret))
        there = await self._etcd.get(key)
        try:
            link = None if there is None else Link.from_json(there.value)
        except ValueError:
            link = None
        if there is None or link is None:
            self._backoff.begin(account=None, address=by.address)
            _log.warning("a one-time link from %s is not good", by.address, extra={
                "action": "login.failed", "caller": "", "address": by.address,
            })  # fmt: skip
            raise RequestError(
                401, "this link is not good any more: it works once, and not for long; make a new one",
                code="login-failed",
            )  # fmt: skip
        opened = await self._sessions.open(
            link.subject, way=SessionWay.LINK, role=link.role, address=by.address, agent=by.agent, secure=by.secure,
            lasts_s=min(LONGEST_S, link.session_ms // 1000), stands_on=[(key, there.mod_revision)], deletes=[key],
            replaces=by.session,
        )  # fmt: skip
        return opened, link.reason

    def through_provider(self, address: str) -> Try:
        """A try that begins before the login provider is asked, and is given back at success. RequestError: 429.

        Any caller can have it asked, and it answers so many of us at a time.
        """
        return self._backoff.begin(account=None, address=address)

    async def change_password(self, subject: Subject, old: str, new: str, by: From) -> Opened:
        """The user has another password; their other sessions are over, and this one is a new one.

        RequestError: 401, the old one is wrong; InvalidInputError: the new one is not taken; ForbiddenError: the
        caller has none.
        """
        await self._directory.ready(True)
        held = self._directory.users.get(subject.name) if subject.kind is SubjectKind.USER else None
        if held is None or held.record.password is None:
            raise ForbiddenError("you have no password here: change it where you log in")
        user = held.record
        if (problem := await self._passwords.problem(new, field="new")) is not None:  # before the work, and any try
            raise InvalidInputError([problem])
        tried = self._backoff.begin(
            account=user.name, address=by.address, device=None if by.session is None else by.session.record.id
        )
        if not await self._is_right(user, old, by=by, is_known=True):
            raise InvalidInputError([Problem(field="old", message="is wrong", remedy="give the password as it is now")])
        tried.give_back()
        changed = replace(user, password=await self._passwords.hash(new), changed_ms=self._clock.wall_ms())
        ended = [self._keys.session(one.digest) for one in self._sessions.of(subject)][:100]
        key = self._keys.user(user.name)
        opened = await self._sessions.open(
            subject, way=SessionWay.PASSWORD, proof=_proof(changed), address=by.address, agent=by.agent,
            secure=by.secure, stands_on=[(key, held.changed_at)], puts=[Put(key, changed.to_json())], deletes=ended,
        )  # fmt: skip
        _log.info("%s has another password", user.name, extra={"action": "password.changed", "caller": user.name})
        return opened

    async def _is_right(self, user: User | None, password: str, *, by: From, is_known: bool) -> bool:
        kept = None if user is None else user.password
        async with self._networks.setdefault(network_of(by.address), asyncio.Semaphore(_OF_A_NETWORK)):
            if is_known or self._passwords.seems_right(kept, password):
                return await self._passwords.is_right(kept, password)
            if self._strangers >= MOST_STRANGERS:
                raise TooManyLoginsError
            self._strangers += 1
            try:
                async with self._one_stranger:
                    return await self._passwords.is_right(kept, password)
            finally:
                self._strangers -= 1


async def make_link(
    etcd: EtcdClient, keys: AccessKeys, *, subject: Subject, reason: str, now_ms: int, role: Role | None = None,
    good_for_s: int = LINK_S, session_s: int = LONGEST_S,
) -> str:  # fmt: skip
    """The secret of a link that lets its holder log in once, as ``subject``. Keep it out of logs, URLs and arguments.

    ``role``: the session has this role on everything, whatever the bindings give (first start, last resort).
    """
    secret = secrets.token_hex(SECRET_BYTES)
    link = Link(subject=subject, role=role, reason=reason, created_ms=now_ms, session_ms=session_s * 1000)
    lease = await etcd.lease_grant(good_for_s)
    await etcd.put(keys.link(digest_of(secret)), link.to_json(), lease.id)
    return secret


def new_device(user: User) -> str:
    """What a browser that has logged in is known by: signed with what only the managers know. With another
    password it is known no more.
    """
    nonce = secrets.token_hex(_NONCE_BYTES)
    return f"{nonce}.{_device_mac(user, nonce)}"


def _known_device(user: User | None, device: str | None) -> str | None:
    """The device's id; None: it has not logged in as this user."""
    nonce, _, mac = (device or "").partition(".")
    if user is None or user.password is None or len(nonce) != 2 * _NONCE_BYTES:
        return None
    return nonce if hmac.compare_digest(mac.encode(errors="replace"), _device_mac(user, nonce).encode()) else None


def _device_mac(user: User, nonce: str) -> str:
    assert user.password is not None
    signed = f"device\0{user.name}\0{nonce}".encode(errors="replace")
    return hmac.new(user.password.encode(), signed, sha256).hexdigest()


def _proof(user: User) -> str | None:
    return None if user.password is None else digest_of(user.password)
