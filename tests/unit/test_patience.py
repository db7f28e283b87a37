"""Rules for the tests themselves: no deadline that a busy machine can miss."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

TESTS = Path(__file__).parents[1]
_SECONDS_FIRST = re.compile(r"(asyncio\.timeout|\.wait|\.join)$")
_SECONDS_SECOND = re.compile(r"asyncio\.wait_for$")
_ENDS = re.compile(r"(wait_until|\.wait|\.end|\.join|\.communicate|subprocess\.\w+|urlopen|ClientTimeout|wait_ready)$")
_IN_A_BROWSER = re.compile(r"(\.(to|not_to|expect|wait_for)_\w+|\.set_(options|default_timeout)|\.goto)$")
_MEANT = "# a time, not a deadline"
_MAY_SAY = re.compile(r"(timeout|wait|join)\(\s*[\d.]|wait_for\(|\b(timeout|total)\s*=\s*[\d.]")
"""A file without any of these gives no deadline as a number. Parsing every file takes 1.5 s."""


def _deadline_s(call: ast.Call) -> float | None:
    """What the call gives up after, where it says so in a number."""
    name = ast.unparse(call.func)
    said: ast.expr | None = None
    if _SECONDS_FIRST.search(name) and call.args and isinstance(call.args[0], ast.Constant):
        said = call.args[0]
    elif _SECONDS_SECOND.search(name) and len(call.args) > 1:
        said = call.args[1]
    elif _ENDS.search(name) or _IN_A_BROWSER.search(name):
        said = next((one.value for one in call.keywords if one.arg in ("timeout", "total")), None)
    match said:
        case ast.Constant(value=int() | float() as number):
            return number / 1000 if _IN_A_BROWSER.search(name) else number
        case _:
            return None


def short_deadlines(text: str) -> Iterator[int]:
    """The lines in which something is given up that may just be slow."""
    if not _MAY_SAY.search(text):
        return
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and (seconds := _deadline_s(node)) is not None and seconds < PATIENCE_S:
            assert node.end_lineno is not None
            if not any(_MEANT in line for line in lines[node.lineno - 1 : node.end_lineno]):
                yield node.lineno


def test_nothing_is_given_up_that_may_just_be_slow() -> None:
    files = [file for file in TESTS.rglob("*.py") if TESTS / "chaos" not in file.parents or "test_" in file.name]
    assert len(files) > 500
    found = [f"{file.relative_to(TESTS)}:{line}" for file in files for line in short_deadlines(file.read_text())]
    assert found == [], f"leave the deadline out, or say {_MEANT!r} and why"


@pytest.mark.parametrize(
    "line",
    [
        "await wait_until(there, description='it', timeout=20)",
        "async with asyncio.timeout(5): pass",
        "await asyncio.wait_for(process.wait(), 15)",
        "process.wait(timeout=10)",
        "process.wait(10)",
        "await expect(row).to_have_text('a', timeout=15_000)",
        "aiohttp.ClientTimeout(total=3)",
    ],
)  # fmt: skip
def test_short_deadline_is_found(line: str) -> None:
    body = f"async def test() -> None:\n    {line}"
    assert [*short_deadlines(body)] == [2]
    assert [*short_deadlines(f"{body}  {_MEANT}: why")] == []
