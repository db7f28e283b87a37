"""The map in a package's docstring names every file that is there, and none that is not."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAPS = [path for program in ("common", "manager", "worker", "cli") for path in (ROOT / program).rglob("__init__.py")]


@pytest.mark.parametrize("path", MAPS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_the_map_is_of_what_is_there(path: Path) -> None:
    named = re.findall(r"(?<![/\w*])[\w*]+(?:\.py\b|/(?=\s|$))", ast.get_docstring(ast.parse(path.read_text())) or "")
    there = {file.name for file in path.parent.glob("*.py")} - {"__init__.py"}
    there |= {f"{package.parent.name}/" for package in path.parent.glob("*/__init__.py")}

    assert {one for one in there if not any(fnmatch(one, name) for name in named)} == set()
    assert {name for name in named if not any(fnmatch(one, name) for one in there)} == set()
