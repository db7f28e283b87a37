"""What is remembered of a call is read back as it was written; anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.dedupe import Remembered, digest_of
from common.protocol.keys import MAX_MARK_MS

TEXTS = st.text(max_size=20)
HEADERS = st.from_regex(r"[ -~]{1,20}", fullmatch=True)
CALLS = st.builds(
    Remembered,
    expires_ms=st.integers(0, MAX_MARK_MS), fingerprint=TEXTS, job_create_revision=st.integers(0, 10**9), token=TEXTS,
    status=st.none() | st.integers(200, 299), answer=st.none() | st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3),
    headers=st.fixed_dictionaries({}, optional={"ETag": HEADERS, "Location": HEADERS.map("/api/".__add__)}),
)  # fmt: skip


@given(call=CALLS)
def test_it_is_read_back(call: Remembered) -> None:
    assert Remembered.from_json(call.to_json()) == call


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"[]",
        b"{}",
        b'{"expiresMs":"x"}',
        b'{"expiresMs":1,"answer":[]}',
        b"\xff",
        b'{"expiresMs":1,"headers":{"Set-Cookie":"a=b"}}',
        b'{"expiresMs":1,"headers":{"Location":"//evil.example/api/"}}',
    ],
)
def test_anything_else_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a remembered call"):
        Remembered.from_json(value)


def test_keys_of_different_kinds_are_different() -> None:
    assert digest_of("dedupe", "k") != digest_of("idempotency", "k")
    assert digest_of("call", "a", "b") != digest_of("call", "ab", "")
