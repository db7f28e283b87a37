"""The texts that an expression of the code may be, as far as its literals tell."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator


def texts_of(node: ast.expr | None, known: dict[str, list[ast.expr]]) -> Iterator[str]:
    """The literals that an expression may be, with ``X1`` in their gaps; of a name what was assigned to it there."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            parts = [list(texts_of(getattr(one, "value", None) if isinstance(one, ast.FormattedValue) else one, known))
                     for one in values]  # fmt: skip
            yield from map("".join, itertools.product(*(one or ["X1"] for one in parts)))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            both = [list(texts_of(one, known)) or ["X1"] for one in (left, right)]
            yield from map("".join, itertools.product(*both))
        case ast.IfExp(body=body, orelse=other):
            yield from texts_of(body, known)
            yield from texts_of(other, known)
        case ast.BoolOp(values=values):
            for value in values:
                yield from texts_of(value, known)
        case ast.Name(id=name):
            for value in known.get(name, ()):
                yield from texts_of(value, {other: values for other, values in known.items() if other != name})
        case _:
            pass


def assigned(function: ast.AST) -> dict[str, list[ast.expr]]:
    """What is assigned to each name, anywhere in it."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, []).append(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else ():
            pairs = [(target, node.value)] if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.Assign) and isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    found.setdefault(name.id, []).append(value)
    return found
