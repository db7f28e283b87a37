"""A write in doubt is settled by ``common.etcd.settle`` and by nobody else: a second rule for doubt is another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ASK_WHETHER: Final = {
    "worker/plan/sending.py": "hands a batch of claims in doubt to `doubts`, which asks again by `answered`",
    "worker/quarantine.py": "passes on what is no fault of the one key",
    "manager/access/audit.py": "notes what it may have taken: twice in the audit is better than never",
    "manager/access/audited.py": "writes nothing: the audit says of a call what its error says",
}
"""Those that may ask whether an error leaves a doubt, and why."""
PASSES: Final = {"EtcdError", "EtcdRefusedError", "EtcdInDoubtError", "UnavailableError"}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Of the product, but for the one place."""
    files = sorted(file for part in ("common", "manager", "worker", "cli") for file in (ROOT / part).rglob("*.py"))
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    return [
        (module, ast.parse(text))
        for module, text in texts.items()
        if not module.startswith("common/etcd/") and module != "common/errors.py"
    ]


def names_in(tree: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def loops_that_send_again(tree: ast.AST) -> Iterator[int]:
    """The lines at which a loop sends a transaction and catches what etcd says of it."""
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.While | ast.For | ast.AsyncFor):
            continue
        for tried in ast.walk(loop):
            caught = tried.handlers if isinstance(tried, ast.Try) else []
            sends = isinstance(tried, ast.Try) and any("txn" in names_in(statement) for statement in tried.body)
            if sends and any(one.type is not None and names_in(one.type) & PASSES for one in caught):
                yield loop.lineno


def test_nobody_else_names_the_error_of_a_doubt() -> None:
    assert [module for module, tree in modules() if "EtcdInDoubtError" in names_in(tree)] == [], __doc__


def test_who_asks_whether_there_is_a_doubt_is_known() -> None:
    asking = {
        module
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "common.etcd.settle"
        if any(one.name == "is_in_doubt" for one in node.names)
    }
    assert asking == ASK_WHETHER.keys(), __doc__


def test_nobody_else_sends_a_transaction_again_and_again() -> None:
    found = [f"{module}:{line}" for module, tree in modules() for line in loops_that_send_again(tree)]
    assert found == [], __doc__


def test_such_a_loop_is_found() -> None:
    tried = "while True:\n    try:\n        await self._etcd.txn(txn)\n    except "
    assert list(loops_that_send_again(ast.parse(f"{tried}(EtcdError, UnavailableError):\n        pass"))) == [1]
    assert list(loops_that_send_again(ast.parse(f"{tried}ValueError:\n        pass"))) == []
