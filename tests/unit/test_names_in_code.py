"""A name in the product's code says what it stands for."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = {
    path.relative_to(ROOT): ast.parse(path.read_text())
    for program in ("cli", "common", "manager", "worker")
    for path in sorted((ROOT / program).rglob("*.py"))
}


def test_a_function_that_is_named_like_a_question_answers_yes_or_no() -> None:
    asked = [
        (path, node.name, ast.unparse(node.returns) if node.returns is not None else "None")
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.lstrip("_").startswith(("is_", "has_"))
    ]
    assert len(asked) > 100
    assert [(f"{path}", name) for path, name, gives in asked if gives != "bool" and "TypeGuard" not in gives] == []
