"""What a person sees on a terminal: tables that fit, colours, how far a command is, the usage after a mistake."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli.__main__ import main
from cli.printing import complain, print_pairs, print_table, tell
from cli.progress import Progress, megabytes, tracked

_HEADS = ("PLANNED", "JOB", "STATUS", "STARTED", "WHY", "RUN")
_ROWS = [
    ("2026-03-29 02:00:00+00:00", "backup", "failed", "2026-03-29 02:00:01+00:00", "exit status 3 " * 9, "backup@1#1"),
    ("2026-03-29 02:00:00+00:00", "每晚", "success", "-", "-", "每晚@1"),
]
_SPARE = ("STARTED", "JOB")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a terminal with colours."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@contextmanager
def _terminal() -> Iterator[_Terminal]:
    """Where stdout and stderr go."""
    terminal = _Terminal()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        yield terminal


def _table(monkeypatch: pytest.MonkeyPatch, columns: int) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    with _terminal() as terminal:
        print_table(_HEADS, _ROWS, none="none", spare=_SPARE)
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()


def test_a_table_has_everything_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _table(monkeypatch, 250)
    assert lines[0].split() == list(_HEADS)
    assert lines[1].rstrip().endswith("exit status 3   backup@1#1")
    assert len(lines) == 3


def test_the_longest_cells_are_cut_first(monkeypatch: pytest.MonkeyPatch) -> None:
    head, first, second = _table(monkeypatch, 110)
    assert head.split() == list(_HEADS)
    assert "2026-03-29 02:00:01+00:00  exit" in first
    assert first.endswith("…  backup@1#1")
    assert len(first) == 110
    # A Chinese character takes two columns.
    assert second.index("success") == first.index("failed") - 2


def test_what_can_be_spared_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    *lines, note = _table(monkeypatch, 80)
    assert lines[0].split() == ["PLANNED", "JOB", "STATUS", "WHY", "RUN"]
    assert note == "the terminal is too narrow for STARTED; -o json has everything"
    assert max(map(len, lines)) <= 80


def test_a_cell_of_any_length_is_cut_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with _terminal() as terminal:
        print_table(["NAME", "WHY"], [["a", "x" * 10_000_000]], none="none")
    assert terminal.getvalue().splitlines()[1] == f"a     {'x' * 33}…"


@pytest.mark.parametrize(("columns", "planned"), [(60, "2026-03-29 02:00:0…"), (48, "2026-03-29 0…")])
def test_what_is_copied_is_cut_last(monkeypatch: pytest.MonkeyPatch, columns: int, planned: str) -> None:
    lines = _table(monkeypatch, columns)
    assert lines[1].startswith(planned[:10])
    assert lines[1].endswith("backup@1#1")
    assert max(map(len, lines[:3])) <= columns


@pytest.mark.parametrize("columns", [1, 10, 30])
def test_no_terminal_is_too_narrow(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    assert len(_table(monkeypatch, columns)) >= 3


def test_a_state_has_its_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    with _terminal() as terminal:
        print_table(("NAME", "LAST RESULT"), [("failed", "failed  today"), ("b", "-")], none="none")
        print_pairs([("state", "paused"), ("reason", "failed")])
        complain("no")
    assert terminal.getvalue() == (
        "\x1b[1mNAME\x1b[0m    \x1b[1mLAST RESULT\x1b[0m\nfailed  \x1b[31mfailed\x1b[0m  today\nb       -\n"
        "state   \x1b[33mpaused\x1b[0m\nreason  failed\n\x1b[31metcron:\x1b[0m no\n"
    )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_are_taken_away(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with _terminal() as terminal:
        print_pairs([("state", "failed")])
        complain("no")
    assert terminal.getvalue() == "state  failed\netcron: no\n"


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_is_shown_after_two_seconds_and_gone_at_the_end() -> None:
    clock = _Clock()
    with _terminal() as terminal, Progress("saving", 1000, monotonic=clock) as progress:
        clock.now = 1.9
        progress.advance(100)
        assert terminal.getvalue() == ""
        clock.now = 2.0
        progress.advance(400)
        progress.advance()  # too soon to be drawn
        assert terminal.getvalue() == f"\r\x1b[Ksaving  [{'#' * 15}{'-' * 15}]  500 of 1,000"
        tell("one is done")
        assert terminal.getvalue().endswith("of 1,000\r\x1b[Kone is done\n")
        clock.now = 2.2
        progress.advance(499)
    assert terminal.getvalue().endswith("1,000 of 1,000\r\x1b[K")


def test_no_progress_on_a_terminal_that_cannot_take_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    clock = _Clock()
    with _terminal() as terminal, Progress("saving", 2, monotonic=clock) as progress:
        clock.now = 3
        progress.advance()
    assert terminal.getvalue() == ""


def test_progress_of_what_nobody_has_counted() -> None:
    clock = _Clock()
    with _terminal() as terminal, Progress("reading", shown=megabytes, monotonic=clock) as progress:
        clock.now = 3
        progress.advance(12_345_678)
        assert terminal.getvalue() == "\r\x1b[Kreading  12.3 MB"


def test_the_outermost_progress_is_shown_alone() -> None:
    clock = _Clock()
    outer, inner = Progress("saving", 2, monotonic=clock), Progress("reading", 9, monotonic=clock)
    with _terminal() as terminal, outer, inner:
        clock.now = 3
        inner.advance()
    assert terminal.getvalue() == ""


def test_progress_goes_to_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    with Progress("saving", 2, monotonic=clock) as progress:
        clock.now = 3
        progress.advance()
    assert list(tracked([1, 2], "reading")) == [1, 2]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("line", "usage", "meant"),
    [
        ("job list --labl a=b", "etcron job list", "--label"),
        ("job lst", "etcron job", "list"),
        ("jbo", "etcron", "job"),
        ("job list --state faling", "etcron job list", "failing"),
        ("worker lst", "etcron worker", "list"),
        ("worker drain w --wiat", "etcron worker drain", "--wait"),
        ("config show worker --etcd-endpoint x", "etcron config show worker", "--etcd-endpoints"),
        ("up --exampel", "etcron up", "--example"),
    ],
)
def test_a_mistake_is_told_with_the_usage_of_its_command(
    line: str, usage: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(line.split())
    assert leaving.value.code == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"usage: {usage} [")
    assert last.startswith(f"{usage}: error: ")
    assert last.endswith(f"; did you mean {meant}?")


def test_version_is_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    shown = capsys.readouterr().out
    assert main(["version"]) == 0
    assert capsys.readouterr().out == shown
