"""Slots that file descriptors do not carry would fail every fire beyond them."""

from __future__ import annotations

import logging
import resource

import pytest

from worker.run.resources import affordable_slots


@pytest.mark.parametrize(
    ("wanted", "descriptors", "slots"),
    [(16, 1024, 16), (1000, 1024, 309), (200, 48, 1), (5000, resource.RLIM_INFINITY, 5000), (16, 144, 16)],
)
def test_slots_are_as_many_as_wanted_and_carried(wanted: int, descriptors: int, slots: int) -> None:
    assert affordable_slots(wanted, descriptors) == slots


def test_fewer_slots_are_said_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        affordable_slots(200, 48)
    assert [record.action for record in caplog.records] == ["slots.fewer"]  # type: ignore[attr-defined]
    assert "ulimit -n" in caplog.text
