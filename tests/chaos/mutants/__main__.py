"""``python -m tests.chaos.mutants [NAME] [--model | --real] --seeds 100``: what notices each mutant, and how soon.

Both on a patched copy of the sources: the model with seed after seed, the fault runs that have to notice up to
``--runs`` times each. Status 1: something that has to be noticed was not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.mutants.patches import BY_NAME, MUTANTS, Mutant
from tests.chaos.mutants.tree import make_model_tree, make_tree, run_model

_SHOWN = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(BY_NAME), help="of one mutant; else all")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", action="store_true", help="the model alone")
    which.add_argument("--real", action="store_true", help="the fault runs alone")
    parser.add_argument("--seeds", type=int, default=150, help="of the model, for each mutant")
    parser.add_argument("--runs", type=int, default=3, help="of each fault run, until it notices")
    asked = parser.parse_args()
    unnoticed = 0
    for mutant in [BY_NAME[asked.name]] if asked.name else MUTANTS:
        sys.stdout.write(f"{mutant.name}\n")
        if not asked.real:
            unnoticed += not _told(_by_model(mutant, asked.seeds))
        if not asked.model:
            unnoticed += not _told(_by_fault_runs(mutant, asked.runs))
    return 1 if unnoticed else 0


def _told(verdicts: Iterator[tuple[bool, str]]) -> bool:
    """Whether all is as it should be; each line is shown as soon as it is known."""
    good = True
    for is_good, line in verdicts:
        sys.stdout.write(f"  {line}\n")
        sys.stdout.flush()
        good &= is_good
    return good


def _by_model(mutant: Mutant, seeds: int) -> Iterator[tuple[bool, str]]:
    with tempfile.TemporaryDirectory(prefix="etcron-mutant-") as directory:
        there = Path(directory) / "tree"
        make_model_tree(mutant, there)
        shown = run_model(there, mutant, first=0, seeds=seeds)
    if shown is None:
        yield False, f"model: not noticed by {seeds} seeds"
    else:
        yield True, f"model: noticed: {' '.join(shown.splitlines()[:2])}"


def _by_fault_runs(mutant: Mutant, runs: int) -> Iterator[tuple[bool, str]]:
    if not mutant.noticed_by:
        yield True, f"fault runs: {mutant.why}"
        return
    with tempfile.TemporaryDirectory(prefix="etcron-mutant-") as directory:
        there = Path(directory) / "tree"
        make_tree(mutant, there)
        for case in mutant.noticed_by:
            yield _by_fault_run(there, case, runs)


def _by_fault_run(there: Path, case: str, runs: int) -> tuple[bool, str]:
    for number in range(1, runs + 1):
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/faults/{case}"],
            cwd=there, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if " skipped" in ended.stdout and " failed" not in ended.stdout:
            return True, f"{case}: skipped: {_reason(ended.stdout)}"
        if ended.returncode == 1:
            return True, f"{case}: noticed by run {number}: {_reason(ended.stdout)}"
        if ended.returncode:
            return False, f"{case}: pytest ended with {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
    return False, f"{case}: not noticed by {runs} runs"


def _reason(output: str) -> str:
    """What pytest says of it, in a few words."""
    lines = [line.strip() for line in output.splitlines() if line.startswith(("E  ", "SKIPPED"))]
    return " | ".join(line.removeprefix("E").strip() for line in lines[:_SHOWN])


if __name__ == "__main__":
    sys.exit(main())
