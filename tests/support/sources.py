"""The code of the product as it is written, read once for all tests that look into it.

It is read where this module is imported, before there are several processes of tests: all of them share it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TEXTS: Final[Mapping[Path, str]] = {
    path.relative_to(ROOT): path.read_text(encoding="utf-8")
    for program in ("cli", "common", "manager", "worker")
    for path in sorted((ROOT / program).rglob("*.py"))
}
"""By the path from the root, in its order."""
TREES: Final[Mapping[Path, ast.Module]] = {path: ast.parse(text) for path, text in TEXTS.items()}
NODES: Final[Mapping[Path, Sequence[ast.AST]]] = {path: [*ast.walk(tree)] for path, tree in TREES.items()}
"""All of each tree, as ``ast.walk`` gives them."""
