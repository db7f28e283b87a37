"""When a notifier says that it cannot tell what happens."""

from __future__ import annotations

import pytest

from manager.notices.notifier import Trouble


@pytest.mark.parametrize(
    ("seen_s", "now_s", "expected"),
    [
        ([0], 20, None),
        ([0, 25, 50, 75, 100, 125], 126, "away"),
        ([0, 25, 50, 75, 100, 125], 160, None),  # it is over
        ([0, 25, 50, 75, 125], 126, None),  # it was over in between
    ],
)
def test_trouble_is_said_once_it_has_gone_on_for_two_minutes(
    seen_s: list[float], now_s: float, expected: str | None
) -> None:
    trouble = None
    for at_s in seen_s:
        trouble = Trouble.seen(trouble, "away", at_s, for_s=30)
    assert trouble is not None
    assert trouble.reason(now_s) == expected
