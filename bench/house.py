"""How large the code is, and how it hangs together: ``python -m bench.house [DIRECTORY]``.

Of the product's Python (common, manager, worker, cli): files and lines; functions, and the lines of their bodies
without docstring; private functions that their module names once beside their definition, as a share of all, and how
many of them are handed on, as callbacks and commands are; modules with one importer; places that send a transaction.
Of the tests, the lines; of the docs, the words, and how many stand in pages that a program writes. To compare two
commits, run it on a checkout of each.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("common", "manager", "worker", "cli")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Print the figures of the checkout in the directory, or of this one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    for name, value in figures(root).items():
        sys.stdout.write(f"{name:45} {value}\n")
    return 0


def figures(root: Path) -> dict[str, str]:
    """By name."""
    files = {path: path.read_text() for program in PROGRAMS for path in sorted((root / program).rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in files.items()}
    functions = [one for tree in trees.values() for one in ast.walk(tree) if isinstance(one, _Function)]
    sizes = sorted(map(_lines, functions))
    once, handed_on = 0, 0
    for tree in trees.values():
        named, called = Counter(_names(tree)), set(_called(tree))
        private = (one.name for one in ast.walk(tree) if isinstance(one, _Function) and _is_private(one.name))
        of_tree = [name for name in private if named[name] == 1]
        once, handed_on = once + len(of_tree), handed_on + sum(name not in called for name in of_tree)
    importers = _importers(root, trees)
    pages = [path.read_text() for path in (root / "docs").rglob("*.md")]
    made = [text for text in pages if "<!-- Made by `make docs`" in text]
    return {
        "files": f"{len(files)}",
        "lines": f"{sum(text.count(chr(10)) for text in files.values()):,}",
        "functions": f"{len(functions):,}",
        "function lines: median, 90 %, longest":
            f"{statistics.median(sizes):g}, {sizes[len(sizes) * 9 // 10]}, {sizes[-1]}",
        "private functions named once": f"{once:,} ({once / len(functions):.0%})",
        "  of these, handed on and not called": f"{handed_on:,} ({handed_on / len(functions):.0%})",
        "modules with one importer": f"{sum(len(who) == 1 for who in importers.values())}",
        "calls that send a transaction": f"{sum(text.count('.txn(') for text in files.values())}",
        "test lines": f"{sum(path.read_text().count(chr(10)) for path in (root / 'tests').rglob('*.py')):,}",
        "words in docs, those made by what runs": f"{sum(map(_words, pages)):,}, {sum(map(_words, made)):,}",
    }  # fmt: skip


def _words(text: str) -> int:
    return len(text.split())


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _lines(function: _Function) -> int:
    has_more = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    return (function.end_lineno or 0) - function.body[has_more].lineno + 1


def _names(tree: ast.AST) -> Iterator[str]:
    return (name for node in ast.walk(tree) for name in _names_of(node))


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case _:
            pass


def _called(tree: ast.AST) -> Iterator[str]:
    return (name for node in ast.walk(tree) if isinstance(node, ast.Call) for name in _names_of(node.func))


def _importers(root: Path, trees: dict[Path, ast.Module]) -> dict[str, set[Path]]:
    """For each module of the product, who imports it."""
    dotted = {str(path.relative_to(root).with_suffix("")).removesuffix("/__init__") for path in trees}
    modules = {one.replace("/", ".") for one in dotted}
    found: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module), names=some):
                    wanted = {f"{module}.{one.name}" for one in some} & modules or {module}
                case ast.Import(names=some):
                    wanted = {one.name for one in some}
                case _:
                    continue
            for one in wanted & modules:
                found[one].add(path)
    return found


if __name__ == "__main__":
    sys.exit(main())
