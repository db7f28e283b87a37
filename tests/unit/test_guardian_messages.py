"""What a worker and its guardian say to each other survives the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from worker.guardian.messages import (
    Adopt,
    Confirmed,
    Ended,
    Ending,
    Group,
    Intent,
    Leapt,
    Lines,
    Message,
    Over,
    Past,
    Ping,
    Pong,
    Ready,
    decode,
    decode_all,
    encode,
    group_line,
    in_json,
    intent_line,
    over_line,
)

ODD_RUN = 'jöb "of \\ 日本\n' + "@1700000000000#1"
EVERY_KIND: list[Message] = [
    Intent(run=ODD_RUN, session="75a", confirmed=12.25, allowance_s=291.0, grace_s=5, locked=True),
    Intent(run="job@1#1", session="75a", confirmed=0.5, allowance_s=None, grace_s=0.5, locked=False),
    Intent(run="job@1#1", session="75a", confirmed=0.5, allowance_s=2.5, grace_s=0.5, locked=True, pid=4711),
    Group(ODD_RUN, 4711),
    Group("job@1#1", 4711, 100.25, 1e9 / 3),
    Over(ODD_RUN),
    Adopt("job@1#1", "75b", 13.5),
    Confirmed("75b", 14.5),
    Ending("job@1#1"),
    Ping(7),
    Ready(),
    Past("job@1#1"),
    Ended("job@1#1"),
    Leapt(),
    Pong(7),
]


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: type(message).__name__)
def test_a_message_is_one_line_and_comes_back_as_it_was(message: Message) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


@pytest.mark.parametrize("name", [ODD_RUN, "job@1#1"])
@pytest.mark.parametrize("allowance_s", [None, 291.0])
@pytest.mark.parametrize("pid", [None, 4711])
def test_lines_made_by_hand_say_the_same(name: str, allowance_s: float | None, pid: int | None) -> None:
    run, began, told = in_json(name), 0.0 if pid is None else 100.25, 0.0 if pid is None else 1e9 / 3
    intent = intent_line(run, "75a", 12.25, allowance_s, 5, locked=pid is None, pid=pid, began=began, reported=told)
    said = Intent(name, "75a", 12.25, allowance_s, 5, pid is None, pid, began, told)
    assert decode(intent) == said
    assert decode(group_line(run, 4711, began, told)) == Group(name, 4711, began, told)
    assert decode(over_line(run)) == Over(name)


def test_the_longest_line_is_written_whole_or_not_at_all() -> None:
    """Longer than any name may be, and in characters that take the most room."""
    run = "\U0001f552" * 255 + "~" + "w" * 64 + "@1700000000000#1000"
    line = encode(
        Intent(
            run=run, session="7" * 16, confirmed=1e9 / 3, allowance_s=1e9 / 3, grace_s=1e9 / 3, locked=True,
            pid=4194304, began=1e9 / 3, reported=1e9 / 3,
        )
    )  # fmt: skip
    assert len(line) < 4096


@pytest.mark.parametrize(
    "line", [b"", b"over", b"[]", b'["dance", 1]', b'["over"]', b'["over", "a", "b"]', b"7", b"[" * 100_000]
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a message"):
        decode(line)


def test_of_a_run_that_is_over_nothing_else_is_heard() -> None:
    """Only what was said before: it may have been started again under its name."""
    errors: list[ValueError] = []
    intent = EVERY_KIND[0]
    said: list[Message] = [intent, Group(ODD_RUN, 1), Group("other@1#1", 2), Over(ODD_RUN), intent, Group(ODD_RUN, 3)]
    heard = decode_all([encode(message) for message in said], errors.append)
    assert heard == [Group("other@1#1", 2), Over(ODD_RUN), intent, Group(ODD_RUN, 3)]
    assert errors == []


@pytest.mark.parametrize(
    "line", [b"over", b"[]", b'["dance", 1]', b'["over", "a", "b"]', b"7", b'["over", ["a"]]', b"[" * 100_000]
)
def test_a_line_that_is_no_message_takes_no_other_with_it(line: bytes) -> None:
    errors: list[ValueError] = []
    heard = decode_all([encode(Ping(1)), line, encode(Over("job@1#1"))], errors.append)
    assert heard[:1] == [Ping(1)]
    assert heard[-1:] == [Over("job@1#1")]


def test_lines_come_out_however_they_are_cut() -> None:
    said = b"".join(encode(message) for message in EVERY_KIND)
    lines = Lines()
    heard = [decode(line) for at in range(0, len(said), 7) for line in lines.take(said[at : at + 7])]
    assert heard == EVERY_KIND


def test_the_guardian_needs_no_package_but_pythons_own() -> None:
    """It runs without the environment's packages: small, and soon ready."""
    root = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {root!r}); import worker.guardian.__main__"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
