"""The first administrator and the last resort: `etcron admin`, with a manager's configuration and its etcd."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from cli.errors import ExitStatus
from common.access.rights import Role
from common.protocol.access_keys import AccessKeys
from manager.access.recovery import RECOVERY_S
from tests.support.access import Accessing
from tests.support.background import running
from tests.support.managing import Managed, Place, managing
from tests.support.waiting import wait_until
from tests.support.warm import WARM

GOOD = "three words in a row\n"


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str


async def etcron(*arguments: str, stdin: str = "") -> Ended:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3])}
    with TemporaryFile() as read, TemporaryFile() as out, TemporaryFile() as errors:
        read.write(stdin.encode())
        read.seek(0)
        process = WARM.start(
            "cli", arguments, directory=Path("/"), environ=environ,
            log=out.fileno(), errors=errors.fileno(), stdin=read.fileno(),
        )  # fmt: skip
        status = await process.ended()
        out.seek(0)
        errors.seek(0)
        return Ended(status, out.read().decode(), errors.read().decode())


@pytest.fixture
def config(place: Place, tmp_path: Path) -> Path:
    path = tmp_path / "manager.json"
    keys = {"etcdEndpoints": [place.etcd], "mongodbUri": place.log_store, "keyPrefix": place.prefix}
    path.write_text(json.dumps({**keys, "mongodbDatabase": place.database}))
    return path


async def log_in(manager: Managed, path: str, **body: str) -> tuple[int, dict[str, Any]]:
    async with manager.http.post(path, json=body) as answer:
        manager.http.session.cookie_jar.clear()
        return answer.status, await answer.json()


async def test_first_administrator_logs_in_and_may_do_everything(place: Place, config: Path) -> None:
    made = await etcron("admin", "create", "alice", "--config", str(config), stdin=GOOD)
    assert (made.status, made.err) == (0, "")
    async with managing(place, auth="required") as manager:
        status, opened = await log_in(manager, "/api/v1/login", name="alice", password=GOOD.strip())
        assert status == 200, opened
        assert opened["caller"]["name"] == "alice"
        assert "admin" in json.dumps(opened["caller"]["bindings"])


async def test_second_administrator_is_made_only_where_that_is_asked_for(config: Path) -> None:
    async def create(name: str, *more: str) -> int:
        return (await etcron("admin", "create", name, "--config", str(config), *more, stdin=GOOD)).status

    assert await create("alice") == 0
    assert await create("bob") == ExitStatus.CONFLICT
    assert await create("bob", "--another") == 0
    assert await create("bob", "--another") == ExitStatus.CONFLICT, "there is such a user"


@pytest.mark.parametrize("password", ["short\n", "\n", "password1\n"])
async def test_password_that_is_tried_first_is_refused_and_not_repeated(config: Path, password: str) -> None:
    made = await etcron("admin", "create", "alice", "--config", str(config), stdin=password)
    assert made.status == ExitStatus.REFUSED
    assert not password.strip() or password.strip() not in made.err + made.out


async def test_recovery_lets_a_browser_in_once_and_every_user_sees_it(place: Place, config: Path) -> None:
    made = await etcron("admin", "recover", "--config", str(config))
    assert made.status == 0, made.err
    found = re.search(r"http://127\.0\.0\.1:8070/login#link=([0-9a-f]{64})$", made.out, re.MULTILINE)
    assert found is not None, made.out
    async with (
        managing(place, auth="required", trustOwner=True) as manager,
        managing(place, auth="required") as another,
    ):
        another.http.session.headers.update(await Accessing(manager, another).user("alice", Role.VIEWER))
        assert (await another.get("/api/v1/whoami"))["recovery"] is None
        assert not any("RECOVERY" in note for note in (await manager.get("/api/v1/system"))["notes"])
        status, opened = await log_in(manager, "/api/v1/login/link", secret=found[1])
        assert status == 200, opened
        assert opened["caller"]["name"] == f"uid {os.getuid()}"
        await Accessing(manager, another).known(await manager.etcd.put(f"{place.prefix}-auth/test/now", b""))
        recovery = (await another.get("/api/v1/whoami"))["recovery"]
        assert recovery["who"] == f"uid:{os.getuid()}"
        assert 0 < recovery["untilMs"] - manager.parts.clock.wall_ms() <= RECOVERY_S * 1000
        assert any("RECOVERY" in note for note in (await manager.get("/api/v1/system"))["notes"])
        status, _ = await log_in(manager, "/api/v1/login/link", secret=found[1])
        assert status == 401, "it works once"


async def test_without_etcd_nothing_is_done(config: Path) -> None:
    made = await etcron(
        "admin", "create", "alice", "--config", str(config), "--etcd-endpoints", "127.0.0.1:1", stdin=GOOD
    )
    assert made.status == ExitStatus.UNAVAILABLE
    assert "Traceback" not in made.err


async def test_audit_has_who_was_made_an_administrator_and_each_recovery(place: Place, config: Path) -> None:
    """Attack: whoever has a manager's configuration lets themselves in, and nobody finds out."""
    await etcron("admin", "create", "alice", "--config", str(config), stdin=GOOD)
    made = await etcron("admin", "recover", "--config", str(config))
    async with managing(place, auth="required", trustOwner=True, loops=True) as manager:
        await log_in(manager, "/api/v1/login/link", secret=made.out.strip()[-64:])

        keys, audit = AccessKeys(place.prefix), manager.parts.audit

        async def are_taken() -> bool:
            return await manager.etcd.count(keys.notes) == 0

        await wait_until(are_taken, description="the manager has taken the notes")
        await wait_until(lambda: audit.waiting == 0, description="the log store has the audit")

        async def entry(action: str) -> dict[str, Any]:
            [found] = (await manager.get(f"/api/v1/audit?action={action}"))["items"]
            return dict(found)

        assert (await entry("admin.create"))["object"] == "user alice"
        assert (await entry("admin.recover"))["who"] == f"etcron admin, uid {os.getuid()}"
        assert (await entry("login.link"))["details"]["reason"] == "etcron admin recover"


async def test_note_that_cannot_be_read_is_an_entry_too(place: Place) -> None:
    async with managing(place, auth="off", loops=True) as manager:
        key = AccessKeys(place.prefix).note("0" * 12)
        await manager.etcd.put(key, b'{"ms": "x"')
        audit = manager.parts.audit
        async with running(audit.publish_head()):
            await wait_until(lambda: audit.head.seq >= 2, description="the audit has it")
        assert await manager.etcd.get(key) is None
