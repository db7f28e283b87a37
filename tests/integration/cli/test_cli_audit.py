"""`etcron audit` against a real manager: what was done is listed, and tampering is found with status 1."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from common.access.rights import Role
from tests.integration.cli.conftest import Etcron
from tests.support.access import Accessing
from tests.support.managing import Managed, Place, managing
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@pytest.fixture
async def manager(place: Place) -> AsyncIterator[Managed]:
    """One with its loops, which asks everybody who they are."""
    async with managing(place, loops=True, auth="required") as managed:
        yield managed


async def test_list_and_verify(etcron: Etcron, manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = await Accessing(manager).user("alice", Role.ADMIN)
    monkeypatch.setenv("ETCRON_TOKEN", headers["Authorization"].removeprefix("Bearer "))
    await etcron.ok("job", "save", "backup", "--command", "true", "--cron", "@yearly")
    audit = manager.parts.audit
    await wait_until(lambda: audit.head.seq > 1 and audit.waiting == 0, description="the log store has it")
    _, line = (await etcron.ok("audit", "list", "--action", "job.save", "--from", "1h")).out.splitlines()
    assert "job backup" in line
    assert "alice" in line
    [entry] = (await etcron.ok("audit", "list", "--object", "job backup", "-o", "json")).json
    assert entry["details"]["changes"]["command"] == {"to": "true"}
    await wait_until(lambda: audit.waiting == 0, description="the log store has it")
    assert "1 chain is whole" in (await etcron.ok("audit", "verify")).out
    await manager.runlog._audit._collection.delete_one({"_id": f"audit/{entry['chain']}/{entry['seq']:012d}"})
    broken = await etcron("audit", "verify")
    assert (broken.status, f"entry {entry['seq']} is missing" in broken.err) == (1, True)
