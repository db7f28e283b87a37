"""What setting up installs is written down, version and hash, and is what setup.cfg asks for."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKED = sorted((ROOT / "requirements").glob("*.txt"))
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>[^\\]+))? \\")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def locked(path: Path) -> dict[str, str]:
    found = [match for line in path.read_text().splitlines() if (match := _PINNED.fullmatch(line))]
    return {re.sub(r"[-_.]+", "-", match["name"]).lower(): match["version"] for match in found}


def wanted(*extras: str) -> list[Requirement]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    texts = [setup["options"]["install_requires"], *(setup["options.extras_require"][extra] for extra in extras)]
    return [Requirement(line) for text in texts for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.name)
def test_each_line_is_a_version_or_a_hash_and_names_no_registry(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not (_PINNED.fullmatch(line) or _HASH.fullmatch(line))] == []
    assert "://" not in path.read_text()


@pytest.mark.parametrize(("name", "extras"), [("run.txt", ["embedded"]), ("test.txt", ["embedded", "test"])])
def test_each_requirement_has_a_version_that_fits(name: str, extras: list[str]) -> None:
    versions = locked(ROOT / "requirements" / name)
    for one in wanted(*extras):
        version = versions[re.sub(r"[-_.]+", "-", one.name).lower()]
        assert one.specifier.contains(version), f"{one}: run requirements/lock"


def test_what_runs_is_what_is_tested() -> None:
    run, tested = (locked(ROOT / "requirements" / name) for name in ("run.txt", "test.txt"))
    assert run.items() <= tested.items()


def test_what_builds_is_the_same_everywhere() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        (builds,) = tomllib.load(file)["build-system"]["requires"]
    said = (ROOT / "requirements/build.in").read_text().split("#")[0].strip()
    assert builds == said == f"setuptools == {locked(ROOT / 'requirements/run.txt')['setuptools']}"
