"""Values of secrets in what a command prints, however it comes."""

from __future__ import annotations

import sys
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from worker.run.mask import Mask

VALUES = st.lists(st.binary(min_size=1, max_size=6).filter(lambda value: b"*" not in value), min_size=1, max_size=3)


def masked(values: list[bytes], pieces: list[bytes]) -> bytes:
    mask = Mask(sorted(values, key=len, reverse=True))
    return b"".join([*map(mask.feed, pieces), mask.end()])


@given(VALUES, st.lists(st.one_of(st.binary(max_size=8), st.just(b"")), max_size=8), st.data())
def test_output_in_pieces_is_masked_as_in_one(values: list[bytes], parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(part + data.draw(st.sampled_from([b"", *values])) for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert masked(values, pieces) == masked(values, [text])


@given(VALUES, st.binary(max_size=30), st.binary(max_size=30))
def test_no_value_is_told(values: list[bytes], before: bytes, after: bytes) -> None:
    text = before + values[0] + after
    told = masked(values, [bytes([byte]) for byte in text])
    # What is left of two values that overlap is part of one at most; with `***` between, none is whole.
    assert all(value not in piece for piece in told.split(b"***") for value in values)


@given(VALUES, st.binary(max_size=40))
def test_output_without_a_value_is_told_as_it_is(values: list[bytes], text: bytes) -> None:
    if not any(value in text for value in values):
        assert masked(values, [text]) == text


def test_output_waits_only_where_it_may_be_the_beginning_of_a_value() -> None:
    mask = Mask([b"password", b"secret"])
    assert [mask.feed(piece) for piece in (b"a line\n", b"it is p", b"assw", b"ord", b"s")] == [
        b"a line\n", b"it is ", b"", b"***", b""
    ]  # fmt: skip
    assert mask.end() == b"s"


def test_value_that_begins_like_another_is_hidden_whole() -> None:
    assert masked([b"pass", b"password"], [b"my pass", b"word and pass"]) == b"my *** and ***"


def test_bytes_that_begin_like_a_long_value_are_not_looked_at_one_by_one() -> None:
    """A place that is looked at copies what follows it."""
    calls = 0

    def count(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    for value in (b"-" + b"x" * 65_535, b"-" * 1_000 + b"x" * 64_536):
        mask, printed = Mask([value]), b"-" * 65_000 + b"|" + b"-" * 500
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            told = mask.feed(printed)
        finally:
            sys.setprofile(before)
        assert calls < 500
        assert told + mask.end() == printed
        assert masked([value], [printed[:-7], value[:9], value[9:], printed]) == printed[:-7] + b"***" + printed
