"""Every command of the documentation is run, beside one `etcron up`; what cannot be run here says why, and is parsed.

The commands of `reference/commands.md` are those of the help texts, which `tests/unit/test_cli_help.py` reads.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.docs.blocks import PAGES, ROOT, Block, blocks_of, etcron_calls, read_arguments
from tests.support.running_up import RunningUp, running_up
from tests.support.waiting import wait_until
from tests.support.warm import WARM
from tests.unit.test_cli_importing import CRON_JOB, CRONICLE, DKRON, TIMER

NOT_RUN_AT_MOST: Final = 26
SHELL = [block for page in PAGES for block in blocks_of(page) if block.language in ("sh", "bash")]
RUN = [block for block in SHELL if block.why_not_run is None]
NOT_RUN = [block for block in SHELL if block.why_not_run is not None]
RUN_PAGES = list(dict.fromkeys(block.page for block in RUN))
_MAKE_TARGETS = set(re.findall(r"^([a-z-]+)(?: [a-z-]+)*:", (ROOT / "Makefile").read_text(), re.MULTILINE))

JOBS: Final[list[dict[str, Any]]] = [
    {"name": "backup", "command": "true", "every": "1d", "labels": {"team": "ops"}},
    {"name": "nightly-report", "command": "true", "every": "1d", "labels": {"team": "billing"}},
    {"name": "hello-world", "command": "true", "every": "1d"},
]
"""Those that pages speak of without making them."""
_OTHERS: Final = {
    "kubectl": json.dumps({"items": [CRON_JOB]}), "systemctl": TIMER, "curl": json.dumps([DKRON]),
    "crontab": "# nightly backup\n30 2 * * * /usr/local/bin/backup\n",
}  # fmt: skip
"""Programs of other systems, each by what it would print."""


@pytest.mark.parametrize("block", NOT_RUN, ids=str)
def test_a_command_that_is_not_run_is_accepted(block: Block) -> None:
    for arguments in etcron_calls(block.text):
        read_arguments(arguments)
    targets = re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE)
    assert set(targets) <= _MAKE_TARGETS


def test_what_is_not_run_says_why_and_is_little() -> None:
    assert len(NOT_RUN) <= NOT_RUN_AT_MOST, [f"{block}: {block.why_not_run}" for block in NOT_RUN]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_stand_in_fences(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^ {4,}(?:etcron|make|curl|\.venv/bin/\w+) .*", text, re.MULTILINE) == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningUp]:
    """One for all pages."""
    async with running_up(tmp_path_factory.mktemp("up")) as running:
        for job in JOBS:
            async with running.http.put(f"{running.url}/api/v1/jobs/{job['name']}", json=job) as answer:
                assert answer.status == 201
        yield running


@pytest.mark.slow
@pytest.mark.etcd
@pytest.mark.logstore
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("page", RUN_PAGES)
async def test_the_commands_of_a_page_do_what_it_says(page: str, up: RunningUp, tmp_path: Path) -> None:
    texts = [block.text for block in RUN if block.page == page]
    if "jq" in "".join(texts) and shutil.which("jq") is None:
        pytest.skip("no jq: apt-get install jq")
    _set_the_scene(tmp_path)
    script = "set -euo pipefail\n" + "\n".join(map(_line_by_line, texts))
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "USER": "u",
        "ETCRON_SERVER": up.url, "TZ": "Europe/Berlin",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-x", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.etcd
@pytest.mark.logstore
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq: apt-get install jq")
async def test_jobs_alone_come_back_enabled_unless_they_never_fire_again(up: RunningUp, tmp_path: Path) -> None:
    jobs: dict[str, dict[str, Any]] = {
        "at-boot": {"cronExpr": "@reboot", "broadcast": True}, "yearly": {"cronExpr": "@yearly"},
        "next": {"after": "1d"}, "once": {"at": datetime.now(UTC).isoformat()},
        "paused": {"every": "1d", "enabled": False},
    }  # fmt: skip
    for name, spec in jobs.items():
        async with up.http.put(
            f"{up.url}/api/v1/jobs/{name}", json={"name": name, "command": "true", **spec}
        ) as answer:
            assert answer.status == 201, await answer.text()

    async def is_over() -> bool:
        async with up.http.get(f"{up.url}/api/v1/jobs/once") as answer:
            return (await answer.json())["nextFire"] is None

    await wait_until(is_over, description="what was to run once has begun")
    _set_the_scene(tmp_path)
    (block,) = (block for block in RUN if block.page == "docs/operate/cluster.md" and "> jobs.json" in block.text)
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT),
        "ETCRON_SERVER": up.url,
    }  # fmt: skip
    subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=tmp_path, env=environ, check=True, timeout=120)
    kept = {job["name"]: job["enabled"] for job in json.loads((tmp_path / "jobs.json").read_text())}
    assert {name for name in jobs if kept[name]} == {"at-boot", "yearly", "next"}
    for name in jobs:
        async with up.http.delete(f"{up.url}/api/v1/jobs/{name}") as answer:
            assert answer.status == 200, await answer.text()


def _line_by_line(text: str) -> str:
    """A line that ends with `# status N` has to have that exit status."""
    return re.sub(r"^(.*?) +# status (\d+)$", r"{ \1; } && exit 99 || [ $? = \2 ]", text, flags=re.MULTILINE)


def _set_the_scene(directory: Path) -> None:
    """The files and programs that pages speak of."""
    programs = directory / "bin"
    programs.mkdir()
    WARM.write_command(programs / "etcron", "cli")
    for name, prints in _OTHERS.items():
        (programs / name).write_text(f"#!/bin/sh\ncat <<'THE_END'\n{prints}\nTHE_END\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    (directory / "examples").symlink_to(ROOT / "examples")
    (directory / "schedule.json").write_text(json.dumps({"rows": [CRONICLE]}))
    (directory / "jobs").mkdir()
    job = {"name": "from-a-file", "command": "true", "every": "1d"}
    (directory / "jobs" / "one.json").write_text(json.dumps(job))
