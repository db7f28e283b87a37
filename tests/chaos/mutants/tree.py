"""A copy of the sources, with a mutant's patches."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.chaos.mutants.patches import Mutant, Patch

ROOT: Final = Path(__file__).parents[3]
_FOLDERS: Final = ("common", "worker", "manager", "cli", "webroot", "tests")
_OF_THE_MODEL: Final = ("common", "tests/chaos", "tests/support")


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
    texts = mutated((*mutant.shared, *mutant.product))
    for folder in _FOLDERS:  # what Python has made of the sources holds as long as they have their times
        shutil.copytree(ROOT / folder, there / folder, ignore=shutil.ignore_patterns("node_modules"))
    for file, text in texts.items():
        (there / file).write_text(text)
    shutil.copy(ROOT / "pyproject.toml", there)


def make_model_tree(mutant: Mutant, there: Path) -> None:
    """The mutant's model, and what it needs, in a directory that there is not yet; what is as it was is linked."""
    texts = {there / file: text for file, text in mutated((*mutant.shared, *mutant.model)).items()}
    for folder in _OF_THE_MODEL:
        (there / folder).parent.mkdir(parents=True, exist_ok=True)
        _link(ROOT / folder, there / folder, texts)


def _link(source: Path, place: Path, texts: Mapping[Path, str]) -> None:
    if place in texts:
        place.write_text(texts[place])
    elif place.name == "__pycache__" or any(place in file.parents for file in texts):  # Python writes into the former
        place.mkdir()
        for one in source.iterdir():
            _link(one, place / one.name, texts)
    else:
        place.symlink_to(source)


def run_model(there: Path, mutant: Mutant, *, first: int, seeds: int) -> str | None:
    """What the mutant's model shows of the first violation, in a tree; None: it has none under these seeds."""
    command = [sys.executable, "-m", "tests.chaos.model", "--first", str(first), "--seeds", str(seeds)]
    if mutant.in_a_busy_world:
        command.append("--busy")
    ended = subprocess.run(command, cwd=there, capture_output=True, text=True, check=False)
    if ended.stderr or ended.returncode not in (0, 1):
        raise RuntimeError(f"the model ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout if ended.returncode else None
