"""Children that are kept running, ended in order, and do not outlive us."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from cli.errors import CommandError
from cli.processes import supervisor
from cli.processes.supervisor import Child, ChildSpec, trim_log
from cli.processes.up import LogEcho
from common.process.lifecycle import LoopEndedError, Stop, run_loops
from common.process.logs import JsonFormatter
from tests.support.etcd_server import free_port
from tests.support.waiting import wait_until

_FOREVER = "import signal; print('up', flush=True); signal.pause()"
_ROOT = Path(__file__).parents[2]


async def _at_once() -> bool:
    return True


async def _never() -> bool:
    return False


def _spec(tmp_path: Path, script: str = _FOREVER, **changes: object) -> ChildSpec:
    defaults: dict[str, object] = {
        "name": "child",
        "command": [sys.executable, "-c", script],
        "log": tmp_path / "child.log",
        "is_ready": _at_once,
    }
    return ChildSpec(**{**defaults, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def kept(spec: ChildSpec) -> AsyncIterator[tuple[Child, list[str]]]:
    """A started child that is kept running inside the block, and what was said of it."""
    said: list[str] = []
    child = Child(spec, said.append)
    await child.start()
    keeping = asyncio.create_task(child.keep_running())
    try:
        yield child, said
    finally:
        keeping.cancel()
        await child.stop(asyncio.Event())


def _is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_DELAY_S", 0.02)
    monkeypatch.setattr(supervisor, "HURRY_S", 0.1)


async def test_a_child_that_dies_is_started_again_and_said_so(tmp_path: Path) -> None:
    async with kept(_spec(tmp_path)) as (child, said):
        first = child.pid
        assert first is not None

        os.kill(first, signal.SIGKILL)
        await wait_until(lambda: child.pid not in {None, first}, description="another process")

    assert said == ["child ended with SIGKILL; starting it again in 0.01 s"]


async def test_the_delay_doubles_up_to_its_limit(tmp_path: Path) -> None:
    async with kept(_spec(tmp_path, "import os; os.kill(os.getpid(), 9)")) as (_, said):
        await wait_until(lambda: len(said) >= 3, description="three restarts")

    assert [line.rsplit(" in ")[1] for line in said[:3]] == ["0.01 s", "0.02 s", "0.02 s"]


async def test_a_child_that_ends_by_itself_is_quoted(tmp_path: Path) -> None:
    async with kept(_spec(tmp_path, "print('apiPort: bad'); raise SystemExit(2)")) as (_, said):
        await wait_until(lambda: len(said) >= 2, description="a restart that was said")

    assert said[:2] == ["child ended with status 2; starting it again in 0.01 s", "    apiPort: bad"]


async def test_a_child_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    child = Child(_spec(tmp_path, command=[str(tmp_path / "nothing")], is_ready=_never), lambda _: None)

    with pytest.raises(CommandError, match="No such file"):
        await child.start()


async def test_a_child_that_cannot_be_watched_is_ended_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []
    watch = os.pidfd_open

    def no_descriptors_left(pid: int, flags: int = 0) -> int:
        pids.append(pid)
        if len(pids) in (2, 3):
            raise OSError(errno.EMFILE, "Too many open files")
        return watch(pid, flags)

    monkeypatch.setattr(os, "pidfd_open", no_descriptors_left)
    async with kept(_spec(tmp_path)) as (child, said):
        os.kill(pids[0], signal.SIGKILL)
        await wait_until(lambda: len(pids) == 4 and child.pid == pids[3], description="the fourth goes on")
        assert all(map(_is_gone, pids[:3]))

    assert said[1:] == [f"child cannot be started ([Errno 24] Too many open files); starting it again in {delay} s"
                        for delay in (0.02, 0.02)]  # fmt: skip


async def test_a_child_that_ends_before_it_is_ready_shows_its_log(tmp_path: Path) -> None:
    child = Child(_spec(tmp_path, "print('no room'); raise SystemExit(3)", is_ready=_never), lambda _: None)

    with pytest.raises(CommandError, match=r"ended with status 3[\s\S]*no room"):
        await child.start()


async def test_a_child_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    child = Child(_spec(tmp_path, is_ready=_never, ready_within_s=0.1), lambda _: None)

    with pytest.raises(CommandError, match=r"not ready after 0\.1 s"):
        await child.start()
    await child.stop(asyncio.Event())


async def test_a_child_is_not_ready_while_somebody_else_listens_on_its_port(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        child = Child(_spec(tmp_path, port=port, ready_within_s=0.2), lambda _: None)
        with pytest.raises(CommandError, match=r"not ready after 0\.2 s"):
            await child.start()
        await child.stop(asyncio.Event())

    listens = f"import socket; server = socket.create_server(('127.0.0.1', {port})); {_FOREVER}"
    child = Child(_spec(tmp_path, listens, port=port), lambda _: None)
    await child.start()
    await child.stop(asyncio.Event())


async def test_a_child_is_ready_once_what_it_has_started_listens_on_its_port(tmp_path: Path) -> None:
    port = free_port()
    script = f"""
    import os, signal, socket
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        server = socket.create_server(("127.0.0.1", {port}))
        os.read(reading, 1)  # until the one that started it has ended
    else:
        signal.pause()
    """
    child = Child(_spec(tmp_path, textwrap.dedent(script), port=port), lambda _: None)
    await child.start()
    await child.stop(asyncio.Event())


async def test_a_child_that_ignores_term_is_killed(tmp_path: Path) -> None:
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    log = tmp_path / "child.log"

    async def says_up() -> bool:
        return log.exists() and log.read_text() == "up\n"

    hurry = asyncio.Event()
    hurry.set()
    said: list[str] = []
    child = Child(_spec(tmp_path, f"while True:\n  {script}", is_ready=says_up), said.append)
    await child.start()
    pid = child.pid
    assert pid is not None

    await child.stop(hurry)

    assert _is_gone(pid)
    assert said == ["child does not stop; killing it"]


async def test_nothing_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import asyncio, sys
        from pathlib import Path
        from cli.processes.supervisor import Child, ChildSpec

        async def ready(): return True
        async def main():
            spec = ChildSpec(name="c", command=[sys.executable, "-c", {_FOREVER!r}], log=Path("c.log"), is_ready=ready)
            child = Child(spec, print)
            await child.start()
            print(child.pid, flush=True)
            await child.keep_running()

        asyncio.run(main())
        """
    )
    environ = {**os.environ, "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        assert not _is_gone(pid)

        parent.kill()

        await wait_until(lambda: _is_gone(pid), description="the child is gone")


async def test_a_loop_that_dies_takes_the_process_down() -> None:
    async def dies() -> None:
        raise ValueError("bad")

    with pytest.raises(ExceptionGroup) as caught:
        await run_loops(Stop(), {"dying": dies, "other": asyncio.Event().wait})  # type: ignore[dict-item]

    assert caught.value.exceptions[0].__notes__ == ["in the loop 'dying'"]


async def test_a_loop_that_just_ends_takes_the_process_down() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await run_loops(Stop(), {"ending": lambda: asyncio.sleep(0)})

    assert isinstance(caught.value.exceptions[0], LoopEndedError)


async def test_a_stop_shuts_down_before_the_loops_are_cancelled() -> None:
    stop, order = Stop(), []

    async def loop() -> None:
        stop.request("test")
        try:
            await asyncio.Event().wait()
        finally:
            order.append("cancelled")

    async def shut_down() -> None:
        order.append("shut down")

    await run_loops(stop, {"loop": loop}, shut_down=shut_down)

    assert order == ["shut down", "cancelled"]


def test_a_second_wish_to_stop_is_a_wish_to_hurry() -> None:
    stop = Stop()
    stop.request("SIGINT")
    assert stop.requested.is_set()
    assert not stop.hurry.is_set()

    stop.request("SIGINT")

    assert stop.hurry.is_set()


def test_a_log_is_kept_small(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_text("x" * 11)

    trim_log(log, limit_bytes=10)

    assert log.read_text() == ""
    assert (tmp_path / "child.log.1").read_text() == "x" * 11


def test_a_log_that_cannot_be_copied_stays_and_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_text("x" * 11)
    (tmp_path / "child.log.1").mkdir()

    trim_log(log, limit_bytes=10)

    assert log.read_text() == "x" * 11


def test_only_alarming_lines_are_echoed_also_after_the_log_was_trimmed(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_text("2026 ERROR   old\n")
    echo = LogEcho(log)
    with log.open("a") as file:
        file.write("2026 INFO    a\n2026 WARNING b\n2026 ERR")
    assert echo.alarming_lines() == ["2026 WARNING b"]
    with log.open("a") as file:
        file.write("OR   c\n")
    assert echo.alarming_lines() == ["2026 ERROR   c"]

    log.write_text("2026 ERROR   d\n")

    assert echo.alarming_lines() == ["2026 ERROR   d"]


def test_alarming_lines_are_echoed_in_json_too(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    echo = LogEcho(log)
    lines = []
    for level in (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        record = logging.LogRecord("worker", level, "", 0, 'no "level": "error" of its own', (), None)
        record.action = "spool.full"
        lines.append(JsonFormatter().format(record))
    log.write_text("".join(f"{line}\n" for line in lines))

    assert echo.alarming_lines() == lines[1:]
