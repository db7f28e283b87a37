"""`etcron job unblock`, and `etcron job delete` of what no job can be called by."""

from __future__ import annotations

from common.clock import SystemClock
from common.protocol.keys import encode_mark
from tests.integration.cli.conftest import Etcron
from tests.support.managing import Managed
from tests.support.waiting import wait_until


async def test_unblock(etcron: Etcron, manager: Managed) -> None:
    await manager.save('{"name":"j","command":"true","cronExpr":"@daily"}')
    refused = await etcron("job", "unblock", "j")
    assert refused.status == 4
    assert "is not blocked" in refused.err
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(SystemClock().wall_ms() + 10 * 86_400_000))
    done = await etcron.ok("job", "unblock", "j", "--reason", "a wrong clock")
    assert done.out == "j: fires again, from now on\n"
    mark = await manager.mark("j")
    assert mark is not None
    assert mark <= SystemClock().wall_ms()
    assert (await etcron("job", "unblock", "nothing")).status == 3


async def test_delete_of_what_is_no_name(etcron: Etcron, manager: Managed) -> None:
    names = ["a b", "\udcff", ".."]
    for name in names:
        await manager.etcd.put(manager.keys.job(name), b"")

    async def seen() -> bool:
        return bool((await manager.get("/api/v1/jobs"))["total"] == len(names))

    await wait_until(seen, description="the keys are listed")
    await etcron.ok("job", "delete", *names)
    assert await manager.etcd.count(manager.keys.jobs) == 0
    assert (await etcron("job", "delete", "..")).status != 0
