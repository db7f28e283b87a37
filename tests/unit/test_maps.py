"""The map in a package's docstring names every file that is there, and none that is not."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAPS = [
    ROOT / package / "__init__.py"
    for package in (
        "cli", "cli/crontab", "cli/manifests", "cli/processes", "common", "common/clocks", "common/configuration",
        "common/crontab", "common/etcd", "common/jobs", "common/notices", "common/process", "common/protocol",
        "common/runlog", "common/schedules", "common/words", "manager", "manager/api", "manager/background",
        "manager/cluster", "manager/console", "manager/http", "manager/use_cases", "manager/views", "manager/watch",
        "worker", "worker/guardian", "worker/launcher", "worker/lead", "worker/machine", "worker/plan", "worker/record",
        "worker/run",
    )
]  # fmt: skip


@pytest.mark.parametrize("path", MAPS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_the_map_is_of_what_is_there(path: Path) -> None:
    named = re.findall(r"[\w*]+(?:\.py\b|/(?=\s|$))", ast.get_docstring(ast.parse(path.read_text())) or "")
    there = {file.name for file in path.parent.glob("*.py")} - {"__init__.py"}
    there |= {f"{package.parent.name}/" for package in path.parent.glob("*/__init__.py")}

    assert {one for one in there if not any(fnmatch(one, name) for name in named)} == set()
    assert {name for name in named if not any(fnmatch(one, name) for one in there)} == set()
