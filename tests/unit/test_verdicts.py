"""A new verdict is forgotten nowhere: what stands elsewhere for each of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from common.verdicts import Verdict
from manager.console.pages import LANGUAGES
from tests.chaos.view import NEVER_RAN

ROOT = Path(__file__).parents[2]
WEBROOT = ROOT / "webroot"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("verdict", Verdict)
def test_has_its_words(verdict: Verdict, language: str) -> None:
    said = json.loads((WEBROOT / f"static/i18n/{language}.json").read_text(encoding="utf-8"))
    keys = {f"verdict.{verdict}", f"verdict.{verdict}.means", f"column.{verdict}", f"event.{verdict.kind}"}
    assert keys | ({f"health.{verdict}"} if verdict.is_failure else set()) <= said.keys()


@pytest.mark.parametrize("verdict", Verdict)
def test_has_a_look_that_the_console_knows(verdict: Verdict) -> None:
    styles = (WEBROOT / "static/css/tables.css").read_text(encoding="utf-8")
    assert verdict.traits.icon in json.loads((WEBROOT / "build/icons.json").read_text(encoding="utf-8"))
    assert not verdict.traits.mark or f".bar-of.is-{verdict.traits.mark} {{" in styles


def test_its_bar_is_told_apart_without_colours() -> None:
    bars = {(one.is_of_a_run, one.is_of_a_run and one.is_failure, one.traits.mark) for one in Verdict}
    assert len(bars) == len(Verdict)


def test_who_checks_histories_knows_of_which_nothing_ran() -> None:
    assert sorted(NEVER_RAN) == sorted(one for one in Verdict if not one.is_of_a_run)


def test_the_steps_for_a_new_one_list_every_file_that_names_one() -> None:
    programs = ("cli", "common", "manager", "worker")
    files = {str(file.relative_to(ROOT)): file for program in programs for file in (ROOT / program).rglob("*.py")}
    naming = {name for name, file in files.items() if re.search(r"\bVerdict\.[A-Z]", file.read_text(encoding="utf-8"))}
    text = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    [steps] = re.findall(r"^\*\*A verdict\*\*$(.*?)^\*\*[A-Z]", text, re.MULTILINE | re.DOTALL)
    listed, directory = set[str](), ""
    for name in re.findall(r"`([\w/]+(?:/|\.py))`", steps):  # `directory/` `file.py`, `file.py`
        directory = name if name.endswith("/") else directory
        listed.add(name if "/" in name else directory + name)
    assert sorted(listed & files.keys()) == sorted(naming | {"common/verdicts.py"})
