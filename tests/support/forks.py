"""The tests in processes that are forked once all is imported and collected: python -m pytest -p tests.support.forks

    this process: imports, collects
        '--fork--> processes of a pool: each takes the pool's next batch, until there is none
                       '--(what it has taken, the report of each phase)--> this process: counts, prints

Reading the tests and what they import takes ten seconds of the processor: here it is done once, not in each process.
Each process has servers of its own: there are tests that count what an etcd does, and the embedded log store does one
thing at a time, so that a long query would hold up all tests.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Final, NoReturn, cast

import pytest
from _pytest.capture import CaptureManager
from _pytest.faulthandler import fault_handler_stderr_fd_key

from common.process.lifecycle import set_parent_death_signal

Batch = Sequence[pytest.Item]

_CLUSTERS: Final = ("tests/acceptance/", "tests/faults/")
_BROWSERS: Final = "tests/console/"
_COUNTED: Final = "tests/integration/deciding/"
_NUMBER_BYTES: Final = 2
_WATCHED_ANEW_AFTER_S: Final = 60


@dataclass(eq=False)
class Pool:
    """Processes that take batches, each the next whose number is in a pipe."""

    batches: Sequence[Batch]
    processes: int
    niceness: int
    queue: int = field(init=False)

    def __post_init__(self) -> None:
        self.queue, entrance = os.pipe()
        os.write(entrance, b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in range(len(self.batches))))
        os.close(entrance)

    def take(self) -> int | None:
        """The number of a batch that nobody else has taken or will take; None: there is none."""
        taken = os.read(self.queue, _NUMBER_BYTES)
        return int.from_bytes(taken, "big") if taken else None


def pools(items: Sequence[pytest.Item]) -> tuple[Pool, Pool, Pool]:
    """Clusters mostly wait for their jobs' times. They have priority: the others take what they leave of the processor.

    Then what has a browser, a cluster in each of its processes. The last are all others, which get the processes of the
    former once these have nothing more to take.
    """
    clusters, browsers, others = list[pytest.Item](), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        is_cluster, is_browser = (item.nodeid.startswith(folder) for folder in (_CLUSTERS, _BROWSERS))
        (clusters if is_cluster else browsers if is_browser else others).append(item)
    return (
        Pool(_batches(clusters), processes=3, niceness=0),
        Pool(_batches(browsers), processes=2, niceness=5),
        Pool(_batches(others), processes=5, niceness=10),
    )


def _batches(items: Iterable[pytest.Item]) -> list[Batch]:
    """A slow test is a batch, and so are the others of a file; or all of a file, where they share something of its own.

    First what is slow, so that nothing is long that is taken last.
    """
    batches = dict[str, list[pytest.Item]]()
    for item in items:
        file = item.nodeid.partition("::")[0]
        alone = item.get_closest_marker("slow") is not None and not _shares(item, file)
        batches.setdefault(item.nodeid if alone else _together(item) or file, []).append(item)
    slow = {name: sum(item.get_closest_marker("slow") is not None for item in batch) for name, batch in batches.items()}
    return [batches[name] for name in sorted(batches, key=slow.__getitem__, reverse=True)]


def _together(item: pytest.Item) -> str | None:
    """What is one batch beyond its file: tests that count what an etcd of their own does, or that share one version."""
    callspec = getattr(item, "callspec", None)
    return _COUNTED if item.nodeid.startswith(_COUNTED) else callspec and callspec.params.get("etcd_binary")


def _shares(item: pytest.Item, file: str) -> bool:
    """Whether it uses a fixture that is made in this file, for several tests."""
    known: Mapping[str, Sequence[pytest.FixtureDef[object]]] = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    return any(one.baseid == file and one.scope != "function" for ones in known.values() for one in ones)


def pytest_collection_finish(session: pytest.Session) -> None:
    """One that reads the code for all processes, before there are any."""
    if any(item.get_closest_marker("etcd") for item in session.items) and not session.config.option.collectonly:
        from tests.support.warm import WARM  # here, for it reads much, and a run of this in small needs none of it

        WARM.open()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """In place of pytest's own, which runs one test after the other."""
    if session.testsfailed or session.config.option.collectonly:
        return None
    _Run(session).all()
    return True


@dataclass(eq=False)
class _Process:
    """One of a pool, as the one that forked it sees it."""

    pool: Pool
    pid: int
    going: list[pytest.Item]
    """What it has taken and not finished; the first of these runs."""


class _Run:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._pools = pools(session.items)
        self._processes: dict[Connection, _Process] = {}
        self._to_come = dict.fromkeys(session.items)

    def all(self) -> None:
        """Returns when every test has run, whatever became of it; Failed where one has not."""
        for pool in self._pools:
            for _ in range(min(pool.processes, len(pool.batches))):
                self._fork(pool, [])
        try:
            while self._processes:
                for told in wait([*self._processes]):
                    self._hear(cast(Connection, told))
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
        finally:
            for process in self._processes.values():
                os.kill(process.pid, signal.SIGKILL)
        if self._to_come:
            first, *others = (item.nodeid for item in self._to_come)
            self._session.shouldfail = f"nobody has run {first}, and {len(others)} others"
            raise self._session.Failed(self._session.shouldfail)

    def _fork(self, pool: Pool, first: Batch) -> None:
        """One more process, which runs these tests and then what it takes."""
        assert threading.active_count() == 1, "who forks has no other threads"
        told, tell = Pipe(duplex=False)
        ours = os.getpid()
        pid = os.fork()
        if not pid:
            set_parent_death_signal(ours)
            for other in (told, *self._processes):
                other.close()
            _work(self._session, pool, first, tell)
        tell.close()
        self._processes[told] = _Process(pool, pid, [*first])

    def _hear(self, told: Connection) -> None:
        process, hook = self._processes[told], self._session.config.hook
        if (message := _received(told)) is None:
            del self._processes[told]
            self._ended(process)
            return
        if isinstance(message, int):
            process.going = [*process.pool.batches[message]]
            return
        reports, finished = cast(tuple[list[object], str | None], message)
        for one in reports:
            report = hook.pytest_report_from_serializable(config=self._session.config, data=one)
            hook.pytest_runtest_logreport(report=report)
        if finished is not None:
            del self._to_come[process.going.pop(0)]

    def _ended(self, process: _Process) -> None:
        """Because there was nothing more to take; or a test has ended its process, and has failed."""
        status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        if process.going:
            failed, *others = process.going
            del self._to_come[failed]
            message = f"its process has ended with {status}, and maybe said above why"
            report = pytest.TestReport(failed.nodeid, failed.location, {}, "failed", message, "call")
            self._session.config.hook.pytest_runtest_logreport(report=report)
            self._fork(process.pool, others)
        elif status:
            self._session.shouldfail = f"a process has ended with {status} between two tests, and has said above why"
        elif process.pool is not (all_others := self._pools[-1]):
            self._fork(all_others, [])


def _received(told: Connection) -> object:
    """What a process has told; None: it has ended."""
    try:
        return told.recv()
    except EOFError:
        return None


def _work(session: pytest.Session, pool: Pool, batch: Batch, tell: Connection) -> NoReturn:
    """In a process of a pool: all that it does."""
    status = 1
    try:
        os.nice(pool.niceness)
        _have_own(session.config)
        session.config.pluginmanager.register(_Telling(session.config, tell))
        while True:
            # What is shared by all tests stays between two batches.
            for item, following in itertools.pairwise([*batch, session]):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if (number := pool.take()) is None:
                break
            batch = pool.batches[number]
            tell.send(number)
        session._setupstate.teardown_exact(None)
        session.config._ensure_unconfigure()
        status = 0
    except KeyboardInterrupt:
        pass  # said once, by the one that forked this
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _have_own(config: pytest.Config) -> None:
    """What the processes cannot share, or what only the one that forked them is to write."""
    plugins = config.pluginmanager
    capture = cast(CaptureManager, plugins.getplugin("capturemanager"))
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    for name in ("terminalreporter", "junitxml", "lfplugin", "nfplugin", "stepwiseplugin", "faulthandler"):
        plugins.unregister(name=name)
    folders = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.mktemp(f"process-{os.getpid()}")


class _Telling:
    """What pytest would print is told: what has passed at the end of its test, which is one message then."""

    def __init__(self, config: pytest.Config, to: Connection) -> None:
        self._config, self._to = config, to
        self._reports: list[object] = []
        self._hangs_after_s = float(config.getini("faulthandler_timeout"))
        self._watched_anew_at = 0.0

    def pytest_runtest_logstart(self) -> None:
        """A thread ends this process where a test hangs: one for a minute, where pytest has one for each test."""
        if self._hangs_after_s and time.monotonic() >= self._watched_anew_at:
            self._watched_anew_at = time.monotonic() + _WATCHED_ANEW_AFTER_S
            to = self._config.stash[fault_handler_stderr_fd_key]
            faulthandler.dump_traceback_later(self._hangs_after_s, file=to, exit=True)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._tell(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))
        if not report.passed:
            self._tell(None)

    def _tell(self, finished: str | None) -> None:
        self._to.send((self._reports, finished))
        self._reports = []
