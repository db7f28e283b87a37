"""No call on a worker's loop touches its data directory, whatever the worker does: a disk that hangs would hold it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from common.clock import SystemClock
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

_watched: list[tuple[Path, list[str]]] = []


def _heed(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook, which nobody can take away again: it is told of each call that opens, names or removes a file."""
    if not _watched or threading.current_thread() is not threading.main_thread():
        return
    directory, found = _watched[-1]
    paths = (one for one in arguments if isinstance(one, str | bytes | Path))
    found.extend(f"{event} {path!r}" for path in paths if _is_in(path, directory))


def _is_in(path: str | bytes | Path, directory: Path) -> bool:
    text = path.decode(errors="replace") if isinstance(path, bytes) else str(path)
    return text.startswith(f"{directory}/")


sys.addaudithook(_heed)


@contextmanager
def no_call_into(directory: Path) -> Iterator[None]:
    """On this thread, until it is left."""
    found: list[str] = []
    _watched.append((directory, found))
    try:
        yield
    finally:
        _watched.pop()
    assert found == []


async def test_whatever_a_worker_does_no_call_on_its_loop_touches_its_disk(place: Place, world: World) -> None:
    with ExitStack() as until_it_has_stopped:
        async with working(place) as worker:
            until_it_has_stopped.enter_context(no_call_into(place.directory))
            await worker.deciding()
            job = await world.save("job", "echo out; exit 3")
            run_id = await world.ask(job, SystemClock().wall_ms())
            assert (await world.record(run_id))["status"] == "failed"
            await worker.parts.spool.try_out()
            await wait_until(lambda: not worker.parts.spool.pending, description="all is delivered")
    assert list((place.directory / "w1" / "spool").iterdir()), "what it does it does elsewhere"
