"""A name in the product's code says what it stands for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.sources import NODES, ROOT, TEXTS


def test_a_function_that_is_named_like_a_question_answers_yes_or_no() -> None:
    asked = [
        (path, node.name, ast.unparse(node.returns) if node.returns is not None else "None")
        for path, nodes in NODES.items()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.lstrip("_").startswith(("is_", "has_"))
    ]
    assert len(asked) > 100
    assert [(f"{path}", name) for path, name, gives in asked if gives != "bool" and "TypeGuard" not in gives] == []


def test_what_a_docstring_names_by_its_path_is_there() -> None:
    named = [
        (path, name)
        for path, nodes in NODES.items()
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in re.findall(r"`((?:cli|common|manager|worker)[./][\w./]+)`", node.value)
    ]
    assert len(named) > 30
    assert [(f"{path}", name) for path, name in named if not _is_there(name)] == []


def _is_there(name: str) -> bool:
    """A file, a package, or what stands in a module."""
    if "/" in name:
        return (ROOT / name).exists()
    module, _, last = name.rpartition(".")
    files = [Path(f"{one.replace('.', '/')}{end}") for one in (name, module) for end in (".py", "/__init__.py")]
    return any(file in TEXTS for file in files[:2]) or any(
        re.search(rf"\b{last}\b", TEXTS[file]) is not None for file in files[2:] if file in TEXTS
    )
