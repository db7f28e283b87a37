"""Every mutant still fits the code, and is code; and the fault runs that have to notice it are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos.mutants.patches import MUTANTS, Mutant, Patch
from tests.chaos.mutants.tree import ROOT, PatchError, mutated

FAULTS = ROOT / "tests" / "faults"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_patches_fit_and_make_code(mutant: Mutant) -> None:
    for patches in ((*mutant.shared, *mutant.product), (*mutant.shared, *mutant.model)):
        for file, text in mutated(patches).items():
            compile(text, file, "exec")
            assert text != (ROOT / file).read_text()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_fault_runs_are_there(mutant: Mutant) -> None:
    assert bool(mutant.noticed_by) != bool(mutant.why)
    for case in mutant.noticed_by:
        file, _, test = case.partition("::")
        assert f"async def {test}(" in (FAULTS / file).read_text()


def test_the_documentation_names_the_fault_runs_that_notice() -> None:
    lines = (ROOT / "docs" / "internals" / "chaos.md").read_text().splitlines()
    told = {mutant.name: [line for line in lines if line.startswith(f"| {mutant.name} ")] for mutant in MUTANTS}
    for mutant in MUTANTS:
        named = [test for line in told[mutant.name] for test in re.findall(r"`(test_\w+)`", line)]
        assert named == [case.partition("::")[2] for case in mutant.noticed_by], mutant.name


def test_a_patch_that_does_not_fit_any_more_says_so(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text("a = 1\n")
    with pytest.raises(PatchError, match=r"some\.py: 0 times there, and not once: 'b = 1'"):
        mutated([Patch(file="some.py", old="b = 1", new="")], tmp_path)
