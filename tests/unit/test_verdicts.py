"""Each verdict stands in every place that lists verdicts by hand: a new one is forgotten in none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from common.protocol.run import Verdict
from manager.views.timelines import WORST_FIRST

ROOT = Path(__file__).parents[2]
PLACES = (
    "cli/printing.py", "cli/stats.py", "webroot/static/js/verdicts.js", "webroot/static/i18n/en.json",
    "tests/chaos/view.py", "docs/explanation/glossary.md", "docs/explanation/guarantees.md",
    "docs/reference/reasons.md",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_names_every_verdict(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")
    assert [one for one in Verdict if not re.search(rf"\b{one}\b", text)] == []


def test_has_a_place_in_the_order_of_what_is_worst() -> None:
    assert sorted(WORST_FIRST) == sorted(Verdict)
