"""`etcron stats` against a real manager, and its help."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.stats import parser
from common.protocol.keys import RunId
from common.protocol.run import Verdict
from tests.integration.cli.conftest import Etcron
from tests.support.counting import count_records
from tests.support.managing import Managed
from tests.support.open_runs import now_ms, record_of

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

DAY_MS = 86_400_000
_DOCS = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


async def test_days_that_had_something_and_their_total(etcron: Etcron, manager: Managed) -> None:
    today_ms = now_ms() // DAY_MS * DAY_MS
    await manager.write([
        record_of(RunId("a", "r-1"), plan_ms=today_ms, end_ms=today_ms + 90_002),
        record_of(RunId("a", "r-2"), Verdict.FAILED, plan_ms=today_ms - 3 * DAY_MS),
        record_of(RunId("b", "r-3"), Verdict.MISSED, plan_ms=today_ms, count=7),
    ])  # fmt: skip
    await count_records(manager.runlog)
    heads, today, before, total = (await etcron.ok("stats")).out.splitlines()
    assert heads.split()[:4] == ["DAY", "RUNS", "SUCCESS", "FAILED"]
    assert today.split()[1:] == ["1", "1", "0", "0", "0", "0", "0", "7", "1", "min", "30", "s", "1", "min", "30", "s"]
    assert before.split()[1:] == ["1", "0", "1", "0", "0", "0", "0", "0", "0.0", "s", "0.0", "s"]
    assert total.split()[:3] == ["total", "2", "1"]
    assert len((await etcron.ok("stats", "a", "--days", "2")).out.splitlines()) == 2
    for option in (["--json"], ["-o", "json"]):
        document = (await etcron.ok("stats", "b", *option)).json
        assert (document["job"], document["total"]["missed"], len(document["items"])) == ("b", 7, 30)


async def test_nothing_and_nobody(etcron: Etcron) -> None:
    nothing = await etcron.ok("stats")
    assert (nothing.out, nothing.err) == ("", "no runs; those of the last minute are not counted yet\n")
    unknown = await etcron("stats", "nobody")
    assert (unknown.status, "there is no job nobody" in unknown.err) == (3, True)
    assert (await etcron("stats", "--days", "401")).status == 2


def test_every_option_is_documented() -> None:
    documented = _DOCS.read_text().partition("## Statistics")[2]
    options = [option for action in parser()._actions for option in action.option_strings[-1:]]
    assert [option for option in options if option not in _DOCS.read_text()] == []
    assert "etcron stats backup --days 7" in documented
