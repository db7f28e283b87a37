"""Users, service accounts, bindings, tokens and sessions, put into etcd by hand as a manager would put them.

async with managing(place, auth="required") as manager:
    access = Accessing(manager)
    headers = await access.user("alice", Role.EDITOR, labels={"team": ["billing"]})
    await manager.http.get("/api/v1/jobs", headers=headers)
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from aiohttp.test_utils import make_mocked_request
from aiohttp.web import Request

from common.access.accounts import Service, User
from common.access.callers import AuthMode, Identity, Via
from common.access.credentials import LoginSession, SessionWay, Token, digest_of, spell_token
from common.access.rights import Binding, Grant, Rights, Role
from common.access.selectors import EVERYTHING, Selector
from common.access.subjects import Subject
from common.clock import SystemClock
from common.etcd import EtcdClient
from common.json_text import dumps
from common.protocol.access_keys import AccessKeys
from common.protocol.txn import Put, Txn
from manager.access.directory import Directory
from manager.access.guard import Access
from manager.access.passwords import Passwords
from tests.support.clearing import delete_prefix
from tests.support.managing import Managed
from tests.support.waiting import PATIENCE_S

HOUR_MS = 3_600_000
Labels = Mapping[str, Collection[str]]


_kept = dict[tuple[type[Passwords], str], str]()


async def kept_of(password: str, passwords: type[Passwords] = Passwords) -> str:
    """What is kept of a password, made once for all tests: a real one takes 25 ms of a processor."""
    if (passwords, password) not in _kept:
        _kept[passwords, password] = await passwords().hash(password)
    return _kept[passwords, password]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """A session as a browser has it."""

    id: str
    secret: str
    second: str
    name: str

    @property
    def headers(self) -> dict[str, str]:
        """What a page of the console sends, over loopback without TLS."""
        return {"Cookie": f"{self.name}={self.secret}", "X-Etcron-Session": self.second, "X-Etcron": "1"}


class Accessing:
    """Who may do what, on one manager (``also``: and on others of its cluster), as a test wants it."""

    def __init__(self, manager: Managed, *also: Managed) -> None:
        self.etcd: EtcdClient = manager.etcd
        self.keys = AccessKeys(manager.keys.prefix)
        self._clock = manager.parts.clock
        self._port = manager.http.port
        self._directories: list[Directory] = [one.parts.directory for one in (manager, *also)]

    async def user(
        self, name: str, role: Role | None = None, *, labels: Labels | None = None,
        run_as: Collection[str] | None = None,
        workers: Labels | None = None, groups: Collection[str] = (), password: str | None = None,
    ) -> dict[str, str]:  # fmt: skip
        """A user with one binding (``role`` None: with none), and the header of a token of theirs.

        ``labels``, ``workers``: None is all; ``run_as``: None is any user. ``password``: its argon2 hash.
        """
        user = User(
            name=name, password=password, groups=tuple(groups), created_ms=0, created_by="test", changed_ms=0
        )  # fmt: skip
        grant = None if role is None else _grant(role, labels, run_as, workers)
        return await self._account(f"user:{name}", self.keys.user(name), user.to_json(), grant)

    async def service(
        self, name: str, role: Role | None = None, *, labels: Labels | None = None,
        run_as: Collection[str] | None = None,
        workers: Labels | None = None,
    ) -> dict[str, str]:  # fmt: skip
        """As `user`, a service account."""
        record = Service(name=name, created_ms=0, created_by="test").to_json()
        grant = None if role is None else _grant(role, labels, run_as, workers)
        return await self._account(f"service:{name}", self.keys.service(name), record, grant)

    async def _account(self, owner: str, key: str, record: bytes, grant: Grant | None) -> dict[str, str]:
        """The record, its binding and its token, by one write."""
        token, headers = self._token(owner)
        puts = [Put(key, record), token]
        if grant is not None:
            puts.append(self._binding(owner, grant)[1])
        await self.known((await self.etcd.txn(Txn((), puts))).revision)
        return headers

    async def change_user(self, name: str, *, disabled: bool = False, groups: Collection[str] = ()) -> None:
        """The user is disabled, or in other groups."""
        user = User(name=name, password=None, groups=(), created_ms=0, created_by="test", changed_ms=0)
        await self.put(self.keys.user(name), replace(user, disabled=disabled, groups=tuple(groups)).to_json())

    async def bind(
        self, subject: str, role: Role, *, labels: Labels | None = None,
        run_as: Collection[str] | None = None,
        workers: Labels | None = None,
    ) -> str:  # fmt: skip
        """A binding; its id."""
        binding_id, put = self._binding(subject, _grant(role, labels, run_as, workers))
        await self.put(put.key, put.value)
        return binding_id

    def _binding(self, subject: str, grant: Grant) -> tuple[str, Put]:
        binding = Binding(id=secrets.token_hex(6), subject=Subject.parse(subject), grant=grant)
        document = {**binding.to_document(), "createdMs": 0, "createdBy": "test"}
        return binding.id, Put(self.keys.binding(binding.id), dumps(document).encode())

    async def token(
        self, owner: str, *, name: str = "test", role: Role | None = None, expires_in_ms: int = HOUR_MS
    ) -> dict[str, str]:
        """The header of a new token of this user or service account."""
        put, headers = self._token(owner, name=name, role=role, expires_in_ms=expires_in_ms)
        await self.put(put.key, put.value)
        return headers

    def _token(
        self, owner: str, *, name: str = "test", role: Role | None = None, expires_in_ms: int = HOUR_MS
    ) -> tuple[Put, dict[str, str]]:
        token_id, secret = secrets.token_hex(6), secrets.token_hex(32)
        now_ms = self._clock.wall_ms()
        token = Token(
            id=token_id, digest=digest_of(secret), owner=Subject.parse(owner), name=name, role=role,
            created_ms=now_ms, expires_ms=now_ms + expires_in_ms, created_by="test",
        )  # fmt: skip
        headers = {"Authorization": f"Bearer {spell_token(token_id, secret)}"}
        return Put(self.keys.token(token_id), token.to_json()), headers

    async def session(
        self, subject: str, *, role: Role | None = None, way: SessionWay = SessionWay.PASSWORD,
        groups: Collection[str] = (), expires_in_ms: int = HOUR_MS, secure: bool = False,
    ) -> Cookie:  # fmt: skip
        """A session of this user, with a lease of its own."""
        secret, second, now_ms = secrets.token_hex(32), secrets.token_hex(32), self._clock.wall_ms()
        session = LoginSession(
            id=secrets.token_hex(6), second=digest_of(second), subject=Subject.parse(subject), groups=tuple(groups),
            way=way, role=role, created_ms=now_ms, expires_ms=now_ms + expires_in_ms, address="127.0.0.1", agent="test",
            secure=secure,
        )  # fmt: skip
        lease = await self.etcd.lease_grant(1800)
        await self.put(self.keys.session(digest_of(secret)), session.to_json(), lease=lease.id)
        name = "__Host-etcron" if secure else f"etcron_session_{self._port}"
        return Cookie(id=session.id, secret=secret, second=second, name=name)

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> None:
        """Under ``<prefix>-auth/``; returns when the managers know it."""
        await self.known(await self.etcd.put(key, value, lease))

    async def delete(self, key: str) -> None:
        """As `put`, the other way round."""
        await self.etcd.delete(key)
        await self.known(await self.etcd.put(self.keys.prefix + "test/marker", b""))

    async def forget_all(self) -> None:
        """Nobody has an account, a right, a token or a session any more."""
        keys = self.keys
        for prefix in (keys.users, keys.services, keys.bindings, keys.tokens, keys.sessions, keys.links):
            await delete_prefix(self.etcd, prefix)
        await self.known(await self.etcd.put(keys.prefix + "test/marker", b""))

    async def known(self, revision: int) -> None:
        """Until the managers know all up to this revision under ``<prefix>-auth/``."""
        for one in self._directories:
            async with asyncio.timeout(PATIENCE_S):
                await one.synced.wait()
            assert await one.has_reached(revision, within_s=PATIENCE_S), "the managers have not heard of it"


class ChangingCaller:
    """A caller whose rights the test changes; None: the credential is no longer good."""

    def __init__(self, rights: Rights) -> None:
        self.rights: Rights | None = rights

    def rights_of(self, identity: Identity) -> Rights:
        return self.rights or Rights()

    def is_known(self, identity: Identity) -> bool:
        return self.rights is not None

    async def ready(self, changes: bool = False) -> None:
        pass

    async def posts(self) -> Rights:
        """The rights in a call that changes something, as the guard hands them on."""
        access = Access(AuthMode.REQUIRED, [self._way], self)
        return (await access.caller(make_mocked_request("POST", "/"))).rights

    async def _way(self, request: Request) -> Identity:
        return Identity(name="alice", subjects=frozenset(), via=Via.TOKEN)


def _grant(role: Role, labels: Labels | None, run_as: Collection[str] | None, workers: Labels | None) -> Grant:
    return Grant(
        role=role, labels=EVERYTHING if labels is None else Selector.of(labels),
        run_as=None if run_as is None else frozenset(run_as),
        workers=EVERYTHING if workers is None else Selector.of(workers),
    )  # fmt: skip


async def administrator_in(etcd: EtcdClient, keys: AccessKeys) -> dict[str, str]:
    """The header of an administrator's token, put there while nobody of this process watches."""
    token_id, secret, now_ms = secrets.token_hex(6), secrets.token_hex(32), SystemClock().wall_ms()
    root = User(name="root", password=None, created_ms=0, created_by="test", changed_ms=0)
    grant = Grant(role=Role.ADMIN, labels=EVERYTHING, run_as=None, workers=EVERYTHING)
    binding = Binding(id=secrets.token_hex(6), subject=root.subject, grant=grant)
    token = Token(
        id=token_id, digest=digest_of(secret), owner=root.subject, name="test", role=None, created_ms=now_ms,
        expires_ms=now_ms + HOUR_MS, created_by="test",
    )  # fmt: skip
    await etcd.put(keys.user("root"), root.to_json())
    document = {**binding.to_document(), "createdMs": 0, "createdBy": "test"}
    await etcd.put(keys.binding(binding.id), dumps(document).encode())
    await etcd.put(keys.token(token_id), token.to_json())
    return {"Authorization": f"Bearer {spell_token(token_id, secret)}"}


async def as_administrator(manager: Managed) -> dict[str, str]:
    """Every call of this client is an administrator's from now on; the header by which it is."""
    headers = await Accessing(manager).user("root", Role.ADMIN)
    manager.http.session.headers.update(headers)
    return headers


def token_id(headers: Mapping[str, str]) -> str:
    """Of the token in a header."""
    return headers["Authorization"].split("_")[1]
