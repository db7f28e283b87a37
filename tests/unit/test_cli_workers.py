"""What `etcron worker list` shows of a worker, and the wait for one that is drained."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from cli.__main__ import main
from cli.errors import CommandError, ExitStatus
from cli.workers import _row, stops_all, wait_until_drained


@pytest.mark.parametrize(
    ("offset_ms", "shown"), [(None, "-"), (0, "+0ms"), (-12, "-12ms"), (999, "+999ms"), (30_000, "+30.0s")]
)
def test_offset_of_its_clock(offset_ms: int | None, shown: str) -> None:
    row = _row({"name": "w", "state": "accepting", "slots": 1, "clockOffsetMs": offset_ms})
    assert row[6] == shown


def test_draining_all_that_take_fires_stops_everything() -> None:
    workers = [
        {"name": "a", "state": "accepting"}, {"name": "b", "state": "accepting"}, {"name": "c", "state": "drained"},
        {"name": "d", "state": "gone"},
    ]  # fmt: skip
    assert stops_all(workers, ["a", "b"])
    assert not stops_all(workers, ["a", "c"])
    assert not stops_all(workers[2:], ["c"]), "nothing fires as it is"


class _Workers:
    """A client whose looks at the workers answer the next of these, and a clock that only the sleeps move."""

    def __init__(self, *pages: object) -> None:
        self._pages = list(pages)
        self.now = 0.0

    def get(self, path: str) -> object:
        page = self._pages.pop(0) if len(self._pages) > 1 else self._pages[0]
        if isinstance(page, Exception):
            raise page
        return page

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, *names: str) -> None:
        wait_until_drained(self, names, sleep=self.sleep, monotonic=lambda: self.now)  # type: ignore[arg-type]


def _page(state: str, running: int, beat_ms: int, *, is_drained: bool = True) -> dict[str, object]:
    beat = {"wallMs": beat_ms, "running": running}
    worker = {"name": "w", "state": state, "drained": {"by": "me"} if is_drained else None, "beat": beat}
    return {"items": [worker, {"name": "other", "state": "accepting", "drained": None, "beat": None}], "warnings": []}


def test_a_drain_is_waited_for_until_a_second_beat_shows_that_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    workers = _Workers(
        _page("draining", 2, 1), _page("draining", 2, 2), CommandError("away", ExitStatus.UNAVAILABLE),
        _page("drained", 0, 3), _page("draining", 1, 4), _page("drained", 0, 5), _page("drained", 0, 5),
        _page("drained", 0, 6),
    )  # fmt: skip
    workers.wait("w")
    assert workers.now == 7
    told = [line.partition(";")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [f"waiting for what runs on w ({count} running)" for count in (2, 0, 1, 0)]


def _away(left: str | None) -> dict[str, object]:
    worker = {"name": "w", "state": "drained", "drained": {"by": "me"}, "beat": None}
    return {"items": [worker if left is None else {**worker, "left": left}], "warnings": []}


@pytest.mark.parametrize("left", ["stopped", "drained"])
def test_a_worker_that_has_stopped_has_nothing_to_wait_for(left: str) -> None:
    workers = _Workers(_page("draining", 2, 1), _away(left))
    workers.wait("w")
    assert workers.now == 1


NOT_THERE: dict[str, object] = {"items": [], "warnings": []}


@pytest.mark.parametrize("page", [_away("gone"), _away(None), _page("detached", 2, 1), NOT_THERE])
def test_what_runs_on_a_worker_that_went_without_a_word_is_not_over(page: dict[str, object]) -> None:
    workers = _Workers(*[page, _page("draining", 2, 1)] * 100, _page("drained", 0, 2), page, _page("drained", 0, 2),
                       _page("drained", 0, 3))  # fmt: skip
    workers.wait("w")
    assert workers.now == 203
    workers = _Workers(_page("draining", 2, 1), page)
    with pytest.raises(CommandError, match="w went without a word") as raised:
        workers.wait("w")
    assert raised.value.status == ExitStatus.UNAVAILABLE
    assert workers.now > 60


@pytest.mark.parametrize(
    ("page", "status"),
    [
        (_page("accepting", 0, 1, is_drained=False), ExitStatus.CONFLICT),
        ({"items": [], "warnings": ["etcd does not answer"]}, ExitStatus.UNAVAILABLE),
    ],
)
def test_a_drain_that_is_not_one_any_more_or_that_nobody_tells_of_ends_the_wait(page: object, status: int) -> None:
    workers = _Workers(_page("draining", 1, 1), page)
    with pytest.raises(CommandError) as raised:
        workers.wait("w")
    assert raised.value.status == status
    assert workers.now < 65


def _runs(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, *, terminal: bool, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """What was started with which arguments, else the command's error; and what stderr says."""
    started: list[str] = []

    def worker(given: Sequence[str]) -> int:
        started.append(f"worker {' '.join(given)}")
        return 0

    def manager(given: Sequence[str], *, serves: bool) -> int:
        started.append(f"manager {' '.join(given)} {serves}")
        return 0

    monkeypatch.setattr("cli.programs.run_worker", worker)
    monkeypatch.setattr("cli.programs.run_manager", manager)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: terminal))
    with contextlib.suppress(SystemExit):
        main(arguments)
    return "; ".join(started), capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "started"),
    [
        ("start worker --config w.json", "worker --config w.json"),
        ("start manager", "manager  True"),
        ("start notifier --config m.json", "manager --config m.json False"),
    ],
)
def test_start_starts(
    line: str, started: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _runs(line.split(), monkeypatch, terminal=True, capsys=capsys) == (started, "")


@pytest.mark.parametrize(
    ("line", "started"),
    [
        ("worker --config w.json", "worker --config w.json"),
        ("worker", "worker "),
        ("manager --config m.json", "manager --config m.json True"),
        ("notifier", "manager  False"),
    ],
)
def test_a_unit_of_an_earlier_version_starts_it_still_and_says_what_to_write(
    line: str, started: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done, said = _runs(line.split(), monkeypatch, terminal=False, capsys=capsys)
    assert done == started
    assert f"write `etcron start {line.split()[0]}`" in said


@pytest.mark.parametrize("line", ["worker", "worker lst", "worker --help"])
def test_who_asks_at_a_terminal_starts_nothing(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done, said = _runs(line.split(), monkeypatch, terminal=True, capsys=capsys)
    assert done == ""
    assert said.count("\n") < 5
