"""User and password to a real etcd: tokens that end, permissions that are missing, work that goes on across both."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.errors import ConfigError, EtcdAccessError, UnavailableError
from common.etcd import Change, Election, EtcdClient, EtcdUser, Mirror, Session, check_access
from common.etcd.types import to_bytes
from common.protocol.compares import absent
from common.protocol.permissions import May, Permission
from common.protocol.txn import Put, Txn
from tests.support.background import running
from tests.support.etcd_auth import PASSWORD, ROOT_PASSWORD, USER, Admin
from tests.support.etcd_server import EtcdServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.etcd

PREFIX = "/etcron"
KEY = f"{PREFIX}/a"
NEEDED = [Permission(prefix=f"{PREFIX}/", may=May.READ_AND_WRITE)]


@pytest.fixture
async def admin(own_etcd: EtcdServer) -> AsyncIterator[Admin]:
    """Authentication is on: the user etcron may read and write under the prefix, and nothing else."""
    async with Admin(own_etcd.endpoint) as admin:
        await admin.enable(PREFIX + "/")
        yield admin


@dataclass(slots=True)
class Secret:
    """A password that changes, as that of a file does."""

    text: str = PASSWORD

    def user(self) -> EtcdUser:
        return EtcdUser(name=USER, password=lambda: self.text)


@pytest.fixture
def secret() -> Secret:
    return Secret()


@pytest.fixture
async def client(own_etcd: EtcdServer, admin: Admin, secret: Secret) -> AsyncIterator[EtcdClient]:
    async with EtcdClient([own_etcd.endpoint], timeout=3, user=secret.user(), clock=SystemClock()) as client:
        yield client


def client_of(server: EtcdServer, user: EtcdUser | None, *, timeout: float = 3) -> EtcdClient:
    return EtcdClient([server.endpoint], timeout=timeout, user=user, clock=SystemClock())


async def test_a_user_with_a_role_on_the_prefix_can_do_all_that_etcron_does(client: EtcdClient) -> None:
    await check_access(client, NEEDED)
    await client.put(KEY, b"one")
    lease = await client.lease_grant(60)
    await client.txn(Txn([absent(KEY + "b")], [Put(KEY + "b", b"", lease.id)]))
    assert await client.lease_keep_alive(lease.id)
    await client.lease_revoke(lease.id)
    assert await client.count(PREFIX + "/") == 1
    status = await client.status()
    if status.version < "3.6":
        await client.compact(status.revision)
        return
    with pytest.raises(EtcdAccessError, match="grant the role root to this user, or set compactionMinutes to 0"):
        await client.compact(status.revision)


async def test_a_wrong_password_is_a_refusal_that_names_the_key(
    own_etcd: EtcdServer, admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with client_of(own_etcd, EtcdUser.with_password(USER, "hunter2")) as client:
        with pytest.raises(EtcdAccessError, match="not with this password") as put:
            await client.put(KEY, b"")
        with pytest.raises(ConfigError, match="etcdUser") as checked:
            await check_access(client, NEEDED)
        with pytest.raises(EtcdAccessError):
            await client.watch_stream()
    assert "hunter2" not in caplog.text + str(put.value) + repr(put.value) + str(checked.value)
    assert checked.value.exit_status == 2, "time does not mend it"


async def test_without_a_user_the_refusal_says_what_to_set(own_etcd: EtcdServer, admin: Admin) -> None:
    async with client_of(own_etcd, None) as client:
        with pytest.raises(EtcdAccessError, match="set etcdUser"):
            await client.put(KEY, b"")
        with pytest.raises(ConfigError, match="etcdPasswordFile") as checked:
            await check_access(client, NEEDED)
    assert checked.value.exit_status == 2


async def test_a_user_where_etcd_asks_nobody_is_refused_at_start_and_borne_later(
    own_etcd: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(own_etcd, EtcdUser.with_password(USER, PASSWORD)) as client:
        with pytest.raises(ConfigError, match="auth enable"):
            await check_access(client, NEEDED)
        await client.put(KEY, b"one")
        assert [getattr(record, "action", "") for record in caplog.records].count("etcd.auth_off") == 1
        async with Admin(own_etcd.endpoint) as admin:  # switched on later: the client authenticates then
            await admin.enable(PREFIX + "/")
            await client.put(KEY, b"two")
            assert not client.user_is_ignored
            await admin.disable()
        await client.put(KEY, b"three")  # its token is ignored, or refused: then it is told again that nobody asks


async def test_a_missing_permission_is_a_refusal_with_the_command_that_grants_it(client: EtcdClient) -> None:
    with pytest.raises(EtcdAccessError, match="grant-permission"):
        await client.put("/other/a", b"")
    with pytest.raises(EtcdAccessError, match="grant-permission"):
        await client.txn(Txn([absent(KEY)], [Put(KEY, b""), Put("/other/a", b"")]))
    assert await client.get(KEY) is None
    with pytest.raises(ConfigError, match="readwrite --prefix=true /other/") as refused:
        await check_access(client, [Permission(prefix="/other/", may=May.READ_AND_WRITE)])
    assert (refused.value.problems[0].field, refused.value.exit_status) == ("etcdUser", 2)


@pytest.mark.parametrize("may", ["READ", "WRITE"])
async def test_reading_alone_and_writing_alone_are_not_enough(own_etcd: EtcdServer, secret: Secret, may: str) -> None:
    async with Admin(own_etcd.endpoint) as admin:
        await admin.enable(PREFIX + "/", may=may)
        async with client_of(own_etcd, secret.user()) as client:
            with pytest.raises(ConfigError, match="readwrite --prefix=true /etcron/"):
                await check_access(client, NEEDED)


async def test_no_page_goes_beyond_what_a_role_may_read(client: EtcdClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.etcd.paging.ROOM", 20)
    keys = [f"{PREFIX}/{number}~" for number in range(500)] + [
        f"{PREFIX}/",
        f"{PREFIX}/\udcff\udcff",
        f"{PREFIX}/\udcff",
    ]
    for start in range(0, len(keys), 120):
        await client.txn(Txn([], [Put(key, b"") for key in keys[start : start + 120]]))
    read = [kv.key async for page in client.read_prefix(f"{PREFIX}/", page=7) for kv in page.kvs]
    assert read == sorted(keys, key=to_bytes)


async def test_a_restart_of_etcd_loses_the_token_and_no_write(own_etcd: EtcdServer, client: EtcdClient) -> None:
    await client.put(KEY, b"one")
    await own_etcd.restart()
    await wait_until(lambda: answers(client), description="the client has found etcd again")
    await client.put(KEY, b"two")
    kv = await client.get(KEY)
    assert kv is not None
    assert (kv.value, kv.version) == (b"two", 2)


async def test_a_write_whose_token_has_ended_is_carried_out_once(client: EtcdClient, admin: Admin) -> None:
    await client.put(KEY, b"one")
    await admin.change_password(PASSWORD)
    await client.put(KEY, b"two")
    kv = await client.get(KEY)
    assert kv is not None
    assert (kv.value, kv.version) == (b"two", 2)


async def test_a_changed_password_is_read_again_and_a_refusal_ends_with_it(
    client: EtcdClient, admin: Admin, secret: Secret
) -> None:
    await client.put(KEY, b"one")
    await admin.change_password("new")
    with pytest.raises(EtcdAccessError):
        await client.put(KEY, b"two")
    secret.text = "new"
    await wait_until(lambda: answers(client), description="the new password is used")
    await client.put(KEY, b"two")


async def test_a_token_that_etcd_does_not_answer_is_given_up(
    own_etcd: EtcdServer, admin: Admin, secret: Secret
) -> None:
    async with client_of(own_etcd, secret.user(), timeout=0.5) as client:
        # Ahead of etcd's log, as after a restore from a backup: etcd waits for its log to come so far.
        client._auth._metadata = (("hasleader", "true"), ("token", "abcdefghijklmnop.99999999"))
        with pytest.raises(UnavailableError, match=r"DEADLINE|in time"):
            await client.get(KEY)
        await wait_until(lambda: answers(client), description="it has asked for another")
        assert await client.get(KEY) is None


@dataclass(slots=True)
class Told:
    """What a mirror has told."""

    values: dict[str, bytes] = field(default_factory=dict)

    def take(self, changes: list[Change]) -> None:
        self.values.update((change.key, change.new.value) for change in changes if change.new is not None)


@pytest.mark.parametrize("disturbance", ["tokens end", "etcd restarts"])
async def test_session_mirror_and_election_go_on_across_a_new_token(
    own_etcd: EtcdServer, client: EtcdClient, admin: Admin, secret: Secret, disturbance: str
) -> None:
    clock = SystemClock()
    told = Told()
    mirror = Mirror(client, f"{PREFIX}/jobs/", told.take, clock=clock)
    session = await Session.open(
        client, key_of=lambda lease: f"{PREFIX}/workers/{lease}", value=b"", ttl=30, clock=clock
    )
    election = Election(client, session, f"{PREFIX}/leader/steward", b"me", clock=clock)
    async with running(session.run(), mirror.run(), election.run()):
        await wait_until(lambda: mirror.synced.is_set() and election.leading, description="all of it runs")
        incarnation, leading = session.incarnation, election.leads_compare
        if disturbance == "tokens end":
            await admin.change_password(PASSWORD)
        else:
            await own_etcd.restart()
        since = clock.boottime()
        await wait_until(lambda: session.confirmed_boottime > since, description="the session is confirmed")
        async with client_of(own_etcd, secret.user()) as other:
            await other.put(f"{PREFIX}/jobs/late", b"new")
        await wait_until(lambda: f"{PREFIX}/jobs/late" in told.values, description="the mirror goes on")
        assert session.healthy
        assert session.incarnation == incarnation
        assert election.leading
        assert (await client.txn(Txn([session.alive, leading, election.leads_compare], [Put(KEY, b"")]))).succeeded
        await session.close()


async def answers(client: EtcdClient) -> bool:
    try:
        await client.get(KEY)
    except (UnavailableError, EtcdAccessError):
        return False
    return True


async def test_a_password_file_is_read_without_its_line_end(own_etcd: EtcdServer, admin: Admin, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(ROOT_PASSWORD + "\n")
    async with client_of(own_etcd, EtcdUser.with_password_file("root", path)) as client:
        await client.put("/anywhere", b"")
    path.unlink()
    async with client_of(own_etcd, EtcdUser.with_password_file("root", path)) as client:
        with pytest.raises(EtcdAccessError, match="cannot be read"):
            await client.put("/anywhere", b"")
