"""JSON as etcron answers it: in ASCII, whatever others wrote into the stores, and as the standard library reads it."""

from __future__ import annotations

import json

import pytest
from bson import Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from common.json_text import dumps

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_is_read_back_as_it_was(value: object) -> None:
    text = dumps(value)
    assert json.loads(text) == value
    assert text.isascii()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\ud800", '"\\ud800"'),
        ("é", '"\\u00e9"'),
        (2**80, str(2**80)),
        (float("nan"), "null"),
        ({"startTime": Int64(1_700_000_000_000)}, '{"startTime":1700000000000}'),
        ({"_id": ObjectId("0" * 24)}, '{"_id":"000000000000000000000000"}'),
    ],
)
def test_what_others_may_have_stored_is_written(value: object, text: str) -> None:
    assert dumps(value) == text
