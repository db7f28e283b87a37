"""What holds for all tests: no configuration from the outside, and no test that depends on how fast it is."""

from __future__ import annotations

import gc
import os

import hypothesis
import pytest

hypothesis.settings.register_profile("etcron", deadline=None, print_blob=True)
hypothesis.settings.load_profile("etcron")


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: from now on no collection of garbage looks at them, which takes 0.1 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_configuration_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the user's shell must not decide how a test ends."""
    for name in [name for name in os.environ if name.upper().startswith("ETCRON_CONFIG_")]:
        monkeypatch.delenv(name)
