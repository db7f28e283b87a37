"""The tests that the documentation names as those that would fail are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUARANTEES = (ROOT / "docs" / "explanation" / "guarantees.md").read_text()
TESTING = (ROOT / "docs" / "internals" / "chaos.md").read_text()
ATTACKS = (ROOT / "docs" / "internals" / "known-attacks.md").read_text()
DOCS = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]


def test_every_test_that_is_named_is_there() -> None:
    text = "\n".join(doc.read_text() for doc in DOCS)
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 80
    missing = []
    for path, name in named:
        file = ROOT / path
        if not file.exists() or (name and f"def {name}(" not in file.read_text()):
            missing.append(f"{path}::{name}")
    assert missing == []


def test_every_promise_names_one() -> None:
    promises = re.findall(r"^\| (G\d+) \| \*\*", GUARANTEES, re.MULTILINE)
    shown = re.findall(r"^\| (G\d+) \| `tests/", TESTING, re.MULTILINE)
    assert len(promises) == 14
    assert shown == promises


def test_every_known_way_in_says_what_stops_it_and_which_test_would_fail() -> None:
    tests = re.findall(r"^\* [^:].*: .+\. `tests/[\w/]+\.py::(test_\w+)`$", ATTACKS, re.MULTILINE)
    assert len(tests) == len(re.findall(r"^ *\*", ATTACKS, re.MULTILINE)), "an entry is not whole"
    assert len(tests) >= 132
    assert sorted(tests) == sorted(set(tests)), "two ways in, and one test"
