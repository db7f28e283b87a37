"""The console's own scripts: they fit together, and data never becomes markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console.console import ROOT

MARKUP = re.compile(r"\.html\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|\beval\(|new Function")
SOURCES = sorted([*(ROOT / "webroot/static/js").rglob("*.js"), *(ROOT / "webroot/templates").glob("*.html")])


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_data_never_becomes_markup(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert MARKUP.search(text) is None
    assert re.search(r"<script>|<style|\sstyle=|\son[a-z]+=\"|\|\s*safe\b|javascript:|data:[a-z]+/", text) is None


def test_scripts_fit_together() -> None:
    if shutil.which("npm") is None or not (ROOT / "node_modules").exists():
        pytest.skip("no npm or no node_modules: make assets")
    checked = subprocess.run(["npm", "run", "--silent", "check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
