"""What holds for all tests: no configuration from the outside, and a process that each leaves as it found it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as `signal`, which makes a member of an enumeration of each answer
import gc
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

import hypothesis
import pytest

hypothesis.settings.register_profile("etcron", deadline=None, print_blob=True)
hypothesis.settings.load_profile("etcron")


# What pytest and the tests are made of stays: while it is read the collector looks for no garbage in it, and afterwards
# not time and again.
gc.disable()
gc.set_threshold(5_000, 20, 20)

# Started with signals ignored (in the background of a script), we and all that the tests start would not be
# interrupted, and a worker in a test would set handlers in their place. Python itself ignores two.
for _number in signal.valid_signals() - {signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ}:
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


# A variable of the user's shell must not decide how a test ends.
for _name in [name for name in os.environ if name.upper().startswith("ETCRON_CONFIG_")]:
    del os.environ[_name]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests stay to the end: from now on no collection of garbage looks at them, which takes 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.enable()
    _one_loop_a_file(session.items)


def _one_loop_a_file(items: Sequence[pytest.Item]) -> None:
    """UsageError where tests of a file run in several loops: what its fixtures keep running stands still meanwhile."""
    loops = dict[Path, set[str]]()
    for item in items:
        if (mark := item.get_closest_marker("asyncio")) is not None:
            loops.setdefault(item.path, set()).add(mark.kwargs.get("loop_scope") or "function")
    several = {str(path): sorted(scopes) for path, scopes in loops.items() if len(scopes) > 1}
    if several:
        raise pytest.UsageError(f"give all tests of these files one loop_scope, in pytestmark: {several}")


# The many servers of the tests share two cores: an etcd of one thread costs a quarter less, and half when it is idle.
os.environ["GOMAXPROCS"] = "1"

_BEFORE: Final = pytest.StashKey["_Shared"]()
_SIGNALS: Final = sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all tests of a process share, so that one may depend on what another has left there."""

    directory: str
    environment: dict[bytes, bytes]
    umask: int
    handlers: dict[int, Any]
    blocked: set[int]

    @classmethod
    def now(cls) -> Self:
        os.umask(umask := os.umask(0o077))
        environment = {**vars(os.environ)["_data"]}  # os.environ decodes each time that it is asked
        environment.pop(b"PYTEST_CURRENT_TEST", None)
        handlers = {number: _signal.getsignal(number) for number in _SIGNALS}
        return cls(os.getcwd(), environment, umask, handlers, signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    def restore(self) -> None:
        os.chdir(self.directory)
        os.environb.clear()
        os.environb.update(self.environment)
        os.umask(self.umask)
        for number, handler in self.handlers.items():
            if handler is not None and _signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    if _BEFORE not in item.session.stash:  # each test leaves it so to the next
        item.session.stash[_BEFORE] = _Shared.now()
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fails the test, and not one that comes after it, where it leaves its process another than it found it."""
    try:
        yield
    finally:  # what ends badly may leave something, too
        _check(item.session.stash[_BEFORE])


def _check(before: _Shared) -> None:
    """AssertionError where what is shared is not as it was; now it is."""
    if (after := _Shared.now()) == before:
        return
    changed = {
        one.name: _different(getattr(before, one.name), getattr(after, one.name))
        for one in fields(_Shared)
        if getattr(before, one.name) != getattr(after, one.name)
    }
    before.restore()
    raise AssertionError(f"the test leaves its process with another {' and another '.join(changed)}: {changed}")


@pytest.fixture
def signals() -> Iterator[None]:
    """For what runs all of a process: its loop leaves other handlers."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _different(before: object, after: object) -> object:
    """What is other now; of a dictionary, the entries that are."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
    return after
