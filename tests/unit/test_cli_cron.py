"""`etcron cron`: the words of each field, and quick to start; what it prints stands in the transcript."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.cron import field_words

_HEAVY = (
    "aiohttp",
    "pymongo",
    "grpc",
    "aetcd",
    "yaml",
    "cron_descriptor",
    "common.configuration",
    "http.client",
    "asyncio",
)


@pytest.mark.parametrize(
    ("expr", "index", "words"),
    [
        ("*/7 * * * * * *", 0, "0, 7, 14, ... 56  (9 values)"),
        ("0 5/20 * * * * *", 1, "5, 25, 45"),
        ("0 0 9-17 * * * *", 2, "9 to 17"),
        ("0 0 22-2 * * * *", 2, "0, 1, 2, 22, 23"),
        ("0 0 0 L * * *", 3, "the last day of the month"),
        ("0 0 0 L-1 * * *", 3, "1 day before the last day of the month"),
        ("0 0 0 15W * * *", 3, "the weekday (Monday to Friday) nearest to day 15"),
        ("0 0 0 1,LW * * *", 3, "1, the last weekday (Monday to Friday) of the month"),
        ("0 0 0 1,31 jan-mar * *", 4, "January to March"),
        ("0 0 0 * * 7,5L,1#2 *", 5, "Sunday, the last Friday of the month, the second Monday of the month"),
        ("0 0 0 * * 0-6 *", 5, "any"),
        ("0 0 0 ? * 1 2026-2028,2031", 6, "2026, 2027, 2028, 2031"),
        ("H * * * *", 1, "a fixed value that comes from the job's name (--job NAME shows which)"),
        ("0 0 0 * * THU *", 5, "Thursday"),
        ("0 0 12 1-7 * &MON *", 5, "and also Monday"),
        ("0 0 12 1-7 * &* *", 5, "any"),
        ("0 0 12 1-7 * &H *", 5, "and also a fixed value that comes from the job's name (--job NAME shows which)"),
    ],
)  # fmt: skip
def test_words_of_a_field(expr: str, index: int, words: str) -> None:
    assert field_words(expr, "")[index][2] == words


def test_next_loads_nothing_that_is_slow_to_load() -> None:
    code = (
        "import sys; from cli.__main__ import main; main(['cron', 'next', '@daily']); "
        f"print([name for name in {_HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert len(done.stdout.splitlines()) == 10
