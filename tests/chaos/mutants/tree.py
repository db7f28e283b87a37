"""A copy of the sources, with a mutant's patches."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.chaos.mutants.patches import Mutant, Patch

ROOT: Final = Path(__file__).parents[3]
_FOLDERS: Final = ("common", "worker", "manager", "cli", "webroot", "tests")


class PatchError(Exception):
    """The text that a patch replaces is not there, or more than once. Adapt tests/chaos/mutants/patches.py."""


def patched(text: str, patch: Patch) -> str:
    """The file's text with the patch; PatchError where it does not fit."""
    count = text.count(patch.old)
    if count != 1:
        raise PatchError(f"{patch.file}: {count} times there, and not once: {patch.old!r}")
    return text.replace(patch.old, patch.new)


def mutated(patches: Iterable[Patch], root: Path = ROOT) -> dict[str, str]:
    """The new text of each file that the patches change."""
    texts: dict[str, str] = {}
    for patch in patches:
        before = texts[patch.file] if patch.file in texts else (root / patch.file).read_text()
        texts[patch.file] = patched(before, patch)
    return texts


def make_tree(mutant: Mutant, there: Path) -> None:
    """The mutant's sources and the tests, in a directory that there is not yet."""
    texts = mutated(mutant.patches)
    for folder in _FOLDERS:
        shutil.copytree(ROOT / folder, there / folder, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    shutil.copy(ROOT / "pyproject.toml", there)
    for file, text in texts.items():
        (there / file).write_text(text)
