"""The reference that is made from what runs is what stands in `docs/`."""

from __future__ import annotations

import pytest

from docs.build.reference import DOCS, PAGES, texts


@pytest.mark.parametrize("place", PAGES)
def test_the_page_is_what_runs(place: str) -> None:
    assert (DOCS / place).read_text(encoding="utf-8") == texts()[place], "run: make docs"
