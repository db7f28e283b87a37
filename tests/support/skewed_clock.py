"""A process whose wall clock is wrong, by libfaketime. Its commands see the right one: they get a clean environment."""

from __future__ import annotations

from pathlib import Path

import pytest

_PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


def skewed_by(seconds: int) -> dict[str, str]:
    """Variables with which a process sees the wall clock so far ahead; skips the test where there is no libfaketime."""
    library = next((path for place in _PLACES for path in Path(place).glob("**/faketime/libfaketime.so.1")), None)
    if library is None:
        pytest.skip("no libfaketime: make faketime, or apt-get install faketime")
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
