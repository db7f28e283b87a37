"""The wheel, installed into a fresh environment, runs from another directory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from email import message_from_string
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from common.version import VERSION
from tests.support.running_up import running_up
from tests.support.waiting import wait_until

_ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def _run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sources (a copy of them: building leaves things behind)."""
    work = tmp_path_factory.mktemp("wheel")
    sources = work / "sources"
    sources.mkdir()
    for name in ("common", "manager", "worker", "cli", "webroot"):
        _run("cp", "-r", _ROOT / name, sources / name, cwd=work)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        _run("cp", _ROOT / name, sources / name, cwd=work)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", work)
    _run(*pip, *_built_with(sources / "pyproject.toml"), sources, cwd=work)
    (built,) = work.glob("etcron-*.whl")
    return built


def _built_with(file: Path) -> list[str]:
    """Nothing is fetched to build with where what the file asks for is here."""
    needed = [Requirement(one) for one in tomllib.loads(file.read_text())["build-system"]["requires"]]
    return ["--no-build-isolation"] if all(map(_is_here, needed)) else []


def _is_here(one: Requirement) -> bool:
    try:
        return distribution(one.name).version in one.specifier
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of a fresh environment with nothing but the wheel and what it asks for.

    Our pip installs the wheel, and checks that it has all; what the wheel asks for are links to our own packages. To
    install them too, with a pip of its own, would take twenty seconds.
    """
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=venv.parent)
    pip = (sys.executable, "-m", "pip", "--python", venv / "bin/python")
    _run(*pip, "install", "--quiet", "--no-compile", "--no-deps", wheel, cwd=venv.parent)
    (site,) = venv.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"etcron-{VERSION}.dist-info/METADATA").decode()
    for package in _needed(message_from_string(metadata).get_all("Requires-Dist", []), extra="embedded"):
        for file in {str(file).split("/")[0] for file in distribution(package).files or ()} - {"..", "__pycache__"}:
            if not (site / file).exists():
                (site / file).symlink_to(str(distribution(package).locate_file(file)))
    _run(*pip, "check", cwd=venv.parent)
    return venv / "bin"


def _needed(requirements: Iterable[str], *, extra: str = "") -> set[str]:
    """The packages that these ask for, and what those ask for."""
    found: set[str] = set()
    for one in map(Requirement, requirements):
        if one.name not in found and (one.marker is None or one.marker.evaluate({"extra": extra})):
            found |= {one.name} | _needed(distribution(one.name).requires or [])
    return found


def test_the_wheel_holds_the_programs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}

    assert tops == {"common", "manager", "worker", "cli", "webroot", f"etcron-{VERSION}.dist-info"}


def test_everything_that_the_pages_need_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    needed = {
        str(file.relative_to(_ROOT))
        for folder in ("templates", "static")
        for file in (_ROOT / "webroot" / folder).rglob("*")
        if file.is_file()
    }

    assert needed <= packed


def test_it_runs_from_another_directory(installed: Path, tmp_path: Path) -> None:
    assert _run(installed / "etcron", "version", cwd=tmp_path) == f"etcron {VERSION}\n"
    assert "8070" in _run(installed / "etcron", "config", "show", "manager", cwd=tmp_path)
    assert "usage: etcron up" in _run(installed / "etcron", "up", "--help", cwd=tmp_path)


async def test_up_runs_from_another_directory(installed: Path, tmp_path: Path) -> None:
    async with running_up(tmp_path, "--example", "--no-fetch-etcd", command=[str(installed / "etcron")]) as up:

        async def has_run() -> bool:
            return any(log["status"] == "success" for log in await up.get("/job/log?name=hello"))

        await wait_until(has_run, description="a green run")
        up.process.terminate()
        assert await up.ends() == 0


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt-get here to fetch an etcd with")
async def test_up_gets_a_sound_etcd_once_and_its_data_go_up(installed: Path, tmp_path: Path) -> None:
    command, offline = [str(installed / "etcron")], {"http_proxy": "http://127.0.0.1:9"}
    async with running_up(tmp_path, "--example", command=command, environ=offline) as up:
        jobs = await up.get("/job/list")
        assert "could not be fetched: etcd 3.5: Debian's cannot be had" in up.out
        assert "WARNING: etcd 3.5.1 can lose committed writes" in up.out
        up.process.terminate()
        assert await up.ends() == 0
    async with running_up(tmp_path, command=command) as up:
        if "could not be fetched" in up.out:
            pytest.skip(f"Debian's etcd cannot be had here: {up.out}")
        assert "(fetched from Debian; " in up.out
        assert f"it takes over from 3.5.1; a copy of the data is {tmp_path}/data/etcd-of-3.5.1" in up.out
        assert (tmp_path / "data/etcd-of-3.5.1/member/snap/db").is_file()
        assert "can lose" not in up.out
        assert await up.get("/job/list") == jobs
        up.process.terminate()
        assert await up.ends() == 0
    async with running_up(tmp_path, command=command, environ=offline) as up:
        assert "(fetched from Debian; " in up.out
        assert "fetching" not in up.out
        assert "it takes over" not in up.out
        assert await up.get("/job/list") == jobs


def test_another_package_named_common_is_not_taken_for_ours(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common/__init__.py").write_text("raise SystemExit('the wrong common')")

    assert _run(installed / "python", "-P", "-m", "cli", "version", cwd=tmp_path) == f"etcron {VERSION}\n"
