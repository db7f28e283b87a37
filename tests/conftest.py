"""What holds for all tests: no configuration from the outside, and no test that depends on how fast it is."""

from __future__ import annotations

import gc
import os
import signal

import hypothesis

hypothesis.settings.register_profile("etcron", deadline=None, print_blob=True)
hypothesis.settings.load_profile("etcron")


# What pytest and the tests are made of stays: the collector need not look for garbage in it time and again.
gc.set_threshold(5_000, 20, 20)

# Started with SIGINT ignored (in the background of a script), we and all that the tests start would not be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)


# A variable of the user's shell must not decide how a test ends.
for _name in [name for name in os.environ if name.upper().startswith("ETCRON_CONFIG_")]:
    del os.environ[_name]


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: from now on no collection of garbage looks at them, which takes 0.1 s."""
    gc.collect()
    gc.freeze()
