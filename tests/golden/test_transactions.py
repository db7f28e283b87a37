"""What is sent to etcd, to the letter: each situation sends exactly what its file in `transactions/` says.

Every place of the product that builds a write or a record, or sends a transaction, comes about in a situation, or
stands in NOT_YET.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.golden.situations import SITUATIONS
from tests.golden.stage import Stage
from tests.support.golden import Site, all_sites, check

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

FILES: Final = Path(__file__).parent / "transactions"
NOT_YET: Final[frozenset[str]] = frozenset()
"""Places without a situation. It may only shrink."""
_reached: set[Site] = set()
_seen: set[str] = set()


@pytest.mark.parametrize("name", SITUATIONS)
async def test_sends_exactly_this_to_etcd(name: str, stage: Stage) -> None:
    stage.stop_clock()
    await SITUATIONS[name](stage)
    told = stage.recorder.told()
    assert told != [], "nothing was sent"
    _seen.add(name)
    _reached.update(stage.recorder.reached)
    check(FILES / f"{name}.json", told)


def test_every_file_has_a_situation() -> None:
    assert {file.stem for file in FILES.glob("*.json")} == SITUATIONS.keys()


def test_every_place_that_writes_to_etcd_has_a_situation() -> None:
    if _seen < SITUATIONS.keys():
        pytest.skip("not all situations were run, or not all came about")
    without = {str(site) for site in all_sites() - _reached}
    new, done = sorted(without - NOT_YET), sorted(NOT_YET - without)
    assert not new, "without a situation, so nothing says what is sent there:\n" + "\n".join(new)
    assert not done, "NOT_YET may shrink by:\n" + "\n".join(done)
