"""Every link in Markdown leads somewhere, on a forge as well; so does each page that code and messages name."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.docs.blocks import GENERATED, PAGES, ROOT

MARKDOWN: Final = sorted({*PAGES, GENERATED, *ROOT.glob("*.md")})
_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
_FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


@cache
def anchors_of(page: Path) -> set[str]:
    """Of each heading, as a forge makes them."""
    headings = re.findall(r"^#+ +(.+?) *$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" in link or path.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if target.is_dir():
            target /= "README.md"
        if not target.is_file() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


def test_the_pages_that_code_names_are_there() -> None:
    grep = ["git", "grep", "-hoIE", r"\bdocs/[a-z/-]+\.md(#[a-z0-9-]+)?"]
    named = set(subprocess.run(grep, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    assert len(named) > 20
    assert {one for one in named if not _is_there(one)} == set()


def _is_there(name: str) -> bool:
    path, _, anchor = name.partition("#")
    return (ROOT / path).is_file() and (not anchor or anchor in anchors_of(ROOT / path))


def test_each_picture_is_shown_and_small() -> None:
    there = {path.name: path.stat().st_size for path in (ROOT / "docs" / "pictures").iterdir()}
    shown = {
        name for page in PAGES for name in re.findall(r"pictures/([\w-]+\.png)\)", page.read_text(encoding="utf-8"))
    }
    assert shown == set(there)
    assert [name for name, size in there.items() if size > 150_000] == []


def test_every_page_has_its_place_in_the_site() -> None:
    nav = set(re.findall(r"^ +- (?:[\w ]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    outside = dict(
        re.findall(r'^    "(.+\.md)": "(.+\.md)",$', (ROOT / "docs/build/outside.py").read_text(), re.MULTILINE)
    )
    assert nav == pages | set(outside.values())
    assert [page for page in outside if not (ROOT / page).is_file()] == []
