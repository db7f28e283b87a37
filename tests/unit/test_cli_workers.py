"""What `etcron worker list` shows of a worker."""

from __future__ import annotations

import pytest

from cli.worker_commands import _row


@pytest.mark.parametrize(
    ("offset_ms", "shown"), [(None, "-"), (0, "+0ms"), (-12, "-12ms"), (999, "+999ms"), (30_000, "+30.0s")]
)
def test_offset_of_its_clock(offset_ms: int | None, shown: str) -> None:
    row = _row({"name": "w", "state": "accepting", "slots": 1, "clockOffsetMs": offset_ms})
    assert row[6] == shown
