"""What of a command's output is kept, and how it is shown."""

from __future__ import annotations

import json
import re
import tracemalloc

import pytest

from worker.run.output import MOST_TEXT_BYTES, Output


def kept(limit: int, *chunks: bytes) -> Output:
    output = Output(limit)
    for chunk in chunks:
        output.add(chunk)
    return output


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([b"hello\n"], "hello\n", id="one line"),
        pytest.param([b"no newline"], "no newline", id="no newline"),
        pytest.param([b"0123456789"], "0123456789", id="exactly the limit"),
        pytest.param([b"01234", b"56", b"789"], "0123456789", id="in pieces"),
        pytest.param("añ€".encode(), "añ€", id="bytes one by one"),
    ],
)
def test_keeps_everything_within_the_limit(chunks: list[bytes] | bytes, text: str) -> None:
    pieces = [bytes([byte]) for byte in chunks] if isinstance(chunks, bytes) else chunks
    output = kept(10, *pieces)
    assert output.text() == text
    assert not output.truncated
    assert output.printed == len(text.encode())


def test_cuts_the_middle_and_counts_it() -> None:
    output = kept(10, b"0123456789", b"x" * 1_234_557, b"abcde")
    assert output.text() == "01234\n... 1,234,562 bytes cut ...\nabcde"
    assert output.truncated
    assert output.printed == 1_234_572


def test_does_not_break_a_line_that_ends_at_the_cut() -> None:
    assert kept(10, b"0123\n", b"xxx", b"abcde").text() == "0123\n... 3 bytes cut ...\nabcde"


def test_keeps_nothing_under_a_limit_of_zero() -> None:
    output = kept(0, b"abc")
    assert output.text() == "... 3 bytes cut ...\n"
    assert output.truncated


@pytest.mark.parametrize("letter", ["é", "€", "😀"])
@pytest.mark.parametrize("shift", range(4))
def test_never_tears_a_character_at_the_cut(letter: str, shift: int) -> None:
    printed = b"x" * shift + letter.encode() * 40
    output = kept(40, printed)
    text = output.text()
    assert "\ufffd" not in text
    head, mark, tail = text.partition("\n... ")
    cut = int(tail.split(" ", 1)[0])
    tail = tail.split("\n", 1)[1]
    assert mark
    assert set(head + tail) <= {letter, "x"}
    assert len(head.encode()) + cut + len(tail.encode()) == len(printed)


def test_shows_bytes_that_are_not_text_in_place() -> None:
    assert kept(100, b"a\xff\xfeb\x80").text() == "a\ufffd\ufffdb\ufffd"


def test_shows_nul_so_that_every_store_takes_it() -> None:
    text = kept(100, b"a\0b").text()
    assert text == "a\u2400b"
    assert json.loads(json.dumps(text)) == text


def test_cuts_what_is_not_text_without_losing_count() -> None:
    output = kept(10, b"\x80" * 100)
    assert output.text().startswith("\ufffd" * 5)
    assert output.printed == 100


@pytest.mark.parametrize("size", [1, 7, 4_096, 65_536, 1_000_000])
def test_holds_little_more_than_the_limit_whatever_is_printed(size: int) -> None:
    output, times = Output(1_000), min(3_000_000 // size, 200_000)
    for _ in range(times):
        output.add(b"x" * size)
        assert len(output._head) + len(output._tail) <= 1_000 + 65_536
    assert output.printed == times * size
    assert len(output.text()) < 1_100


def test_keeps_the_newest_bytes_in_the_tail() -> None:
    output = Output(100)
    for number in range(100_000):
        output.add(b"%06d\n" % number)
    assert output.text().endswith("099998\n099999\n")
    assert output.text().startswith("000000\n000001\n")


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
@pytest.mark.parametrize("printed", [6_000_000, 8 << 20, 20_000_000])
def test_cuts_more_where_what_is_not_text_would_be_too_large_for_the_log_store(byte: bytes, printed: int) -> None:
    output = kept(8 << 20, b"first ", byte * (printed - 12), b" last\n")
    text = output.text()
    assert 14 << 20 < len(text.encode()) <= MOST_TEXT_BYTES
    assert text.startswith("first ")
    assert text.endswith(" last\n")
    mark = re.search(r"\n\.\.\. ([0-9,]+) bytes cut \.\.\.\n", text)
    assert mark is not None
    assert len(text) - len(mark[0]) + int(mark[1].replace(",", "")) == printed
    assert output.truncated
    assert output.printed == printed


def test_what_is_too_large_is_cut_before_it_is_made_text() -> None:
    output = kept(8 << 20, b"\xff" * (8 << 20))
    tracemalloc.start()
    try:
        output.text()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * MOST_TEXT_BYTES


def test_keeps_as_much_text_as_the_limit_says() -> None:
    printed = "añ€😀".encode() * 838_860
    output = kept(8 << 20, printed)
    assert output.text().encode() == printed
    assert not output.truncated


def test_newest_of_what_is_kept_is_told_with_its_place() -> None:
    output = kept(20, b"0123456789" * 1_000)
    assert output.newest(0, 64) == [(0, b"0123456789"), (9_990, b"0123456789")]
    assert output.newest(9_995, 64) == [(9_995, b"56789")]
    assert output.newest(10_000, 64) == []
    assert kept(0, b"nothing of it is kept").newest(0, 64) == []
    assert kept(100, b"abc").newest(1, 64) == [(1, b"bc")]


def test_of_more_than_is_told_at_once_the_newest_and_at_first_some_of_the_head() -> None:
    output = kept(100, b"head" + b"-" * 92 + b"tail")
    assert output.newest(0, 16) == [(0, b"head"), (88, b"-" * 8 + b"tail")]
    assert output.newest(4, 16) == [(84, b"-" * 12 + b"tail")]


def test_no_character_is_torn_that_is_told() -> None:
    output = kept(100, "\N{SNOWMAN}".encode() * 3 + "\N{SNOWMAN}".encode()[:2])
    assert output.newest(0, 100) == [(0, "\N{SNOWMAN}".encode() * 3)]
    assert output.newest(3, 7) == [(6, "\N{SNOWMAN}".encode())]
    output.add("\N{SNOWMAN}".encode()[2:])
    assert output.newest(9, 100) == [(9, "\N{SNOWMAN}".encode())]
