"""A write in doubt is settled by ``common.etcd.settle`` and by nobody else: a second rule for doubt is another one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tests.support.sources import NODES

ASK_WHETHER: Final = {
    "worker/plan/sending.py": "hands a batch of claims in doubt to `doubts`, which asks again by `answered`",
    "worker/quarantine.py": "passes on what is no fault of the one key",
    "manager/access/audit.py": "notes what it may have taken: twice in the audit is better than never",
    "manager/access/audited.py": "writes nothing: the audit says of a call what its error says",
    "manager/http/errors.py": "writes nothing: the answer says of a call what its error says",
    "manager/http/idempotency.py": "keeps the key of a call that may have been done",
}
"""Those that may ask whether an error leaves a doubt, and why."""
PASSES: Final = {"EtcdError", "EtcdRefusedError", "EtcdInDoubtError", "UnavailableError"}


def modules() -> list[tuple[str, Sequence[ast.AST]]]:
    """Of the product, but for the one place: all that each consists of."""
    named = ((str(path), nodes) for path, nodes in NODES.items())
    return [one for one in named if not one[0].startswith("common/etcd/") and one[0] != "common/errors.py"]


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id if isinstance(node, ast.Name) else node.attr
            for node in nodes if isinstance(node, ast.Name | ast.Attribute)}  # fmt: skip


def loops_that_send_again(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """The lines at which a loop sends a transaction and catches what etcd says of it."""
    for loop in nodes:
        if not isinstance(loop, ast.While | ast.For | ast.AsyncFor):
            continue
        for tried in (node for node in ast.walk(loop) if isinstance(node, ast.Try)):
            sends = any("txn" in names_in(ast.walk(statement)) for statement in tried.body)
            caught = [one.type for one in tried.handlers if one.type is not None]
            if sends and any(names_in(ast.walk(one)) & PASSES for one in caught):
                yield loop.lineno


def test_nobody_else_names_the_error_of_a_doubt() -> None:
    assert [module for module, nodes in modules() if "EtcdInDoubtError" in names_in(nodes)] == [], __doc__


def test_who_asks_whether_there_is_a_doubt_is_known() -> None:
    asking = {
        module
        for module, nodes in modules()
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "common.etcd.settle"
        if any(one.name == "is_in_doubt" for one in node.names)
    }
    assert asking == ASK_WHETHER.keys(), __doc__


def test_nobody_else_sends_a_transaction_again_and_again() -> None:
    found = [f"{module}:{line}" for module, nodes in modules() for line in loops_that_send_again(nodes)]
    assert found == [], __doc__


def test_such_a_loop_is_found() -> None:
    tried = "while True:\n    try:\n        await self._etcd.txn(txn)\n    except "
    assert [*loops_that_send_again(all_of(f"{tried}(EtcdError, UnavailableError):\n        pass"))] == [1]
    assert [*loops_that_send_again(all_of(f"{tried}ValueError:\n        pass"))] == []


def all_of(text: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(text))
