"""What a worker's guardian is told, and how often."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from common.stored.keys import RunId
from tests.support.fake_clock import FakeClock
from worker.guardian.link import GuardianLink, _Open
from worker.guardian.messages import Confirmed, encode
from worker.runs import RunTable


class ToldChild:
    """Listens at once."""

    is_behind = False

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.writes = 0

    def put_off(self, line: bytes) -> None:
        self.lines.append(line)

    def say_rest(self) -> bool:
        self.writes += 1
        return True


def linked(directory: Path, table: RunTable) -> tuple[GuardianLink, ToldChild]:
    async def tell(fault: str | None) -> None:
        """Nobody hears."""

    link = GuardianLink(
        directory=directory, instance="i", table=table, margin_s=2.0, log_level="INFO",
        on_past=lambda run_id, ended: False, on_ready=lambda: None, tell=tell, clock=FakeClock(0),
    )  # fmt: skip
    child = ToldChild()
    link._child = cast(Any, child)
    link._ready.set()
    return link, child


async def test_of_several_starts_it_is_told_in_one_write_or_of_none(tmp_path: Path) -> None:
    run_ids, table = [RunId("job", str(number)) for number in range(3)], RunTable(4)
    for run_id in run_ids[:2]:
        run: Any = SimpleNamespace(
            entry=SimpleNamespace(lost_after_ms=None), job=SimpleNamespace(spec=SimpleNamespace(kill_grace_s=5.0)),
            session=SimpleNamespace(id="session", confirmed_boottime=1.0), holds_lock=True,
        )  # fmt: skip
        table._runs[run_id] = run
    link, child = linked(tmp_path, table)
    assert not link.intents(run_ids), "one of them is none of this worker's"
    assert child.lines == []
    assert link.intents(run_ids[:2])
    assert (len(child.lines), child.writes) == (2, 1)


async def test_of_each_session_it_is_told_once_what_has_changed(tmp_path: Path) -> None:
    link, child = linked(tmp_path, RunTable(4))
    sessions = [cast(Any, SimpleNamespace(id=name, confirmed_boottime=5.0)) for name in ("old", "new")]
    for number, session in enumerate(sessions):
        run = cast(Any, SimpleNamespace(session=session))
        link._open[RunId("job", str(number))] = _Open(run=run, session=session, name="x")
    told = [encode(Confirmed(session.id, 5.0)) for session in sessions]
    for _ in range(3):
        link.tick()
    assert [line for line in child.lines if line in told] == told
    del link._open[RunId("job", "0")]
    sessions[1].confirmed_boottime = 6.0
    link.tick()
    assert link._confirmed == {"new": 6.0}
    assert encode(Confirmed("new", 6.0)) in child.lines
