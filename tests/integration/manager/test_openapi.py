"""The OpenAPI document says what there is, no more and no less, and nothing that it allows breaks a manager."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp.web import Application

from common.access.rights import Role
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.jobs.schema import job_schema
from common.protocol.keys import RunId
from manager.api.openapi import document
from manager.app import create_app
from tests.support.access import Accessing, as_administrator
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import record_of

_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
_ROOT = Path(__file__).parents[3]
_KEPT = _ROOT / ".hypothesis"
_READ_AS_ELSEWHERE = (
    ("POST", "jobs/check"), ("POST", "schedule/preview"), ("POST", "crontab"), ("POST", "crontab/preview"),
    ("PUT", "channels/{name}"), ("PUT", "rules/{name}"),
)  # fmt: skip
"""Calls whose bodies are read by the code that reads those of another call."""
_EXAMPLES = int(os.environ.get("ETCRON_FUZZ_EXAMPLES", "3"))
"""Requests of each kind and call; the seed is fixed, so that a failure is one for everybody."""


def routes(app: Application) -> set[tuple[str, str]]:
    """(method, path) of every route under /api/v1."""
    return {
        (route.method.lower(), route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/api/v1") and route.method != "HEAD"
    }


def described() -> set[tuple[str, str]]:
    return {(method, path) for path, calls in document()["paths"].items() for method in calls}


async def test_every_route_is_described_and_nothing_else(manager: Managed) -> None:
    assert routes(create_app(manager.parts.config)) == described()


async def test_every_call_refuses_query_parameters_that_it_does_not_have(manager: Managed) -> None:
    headers = await Accessing(manager).user("alice", Role.ADMIN)
    for method, path in sorted(described()):
        if path == "/api/v1/login/oidc/callback":
            continue  # providers add what they like
        filled = path.replace("{name}", "j").replace("{id}", "j%40100%231").replace("{revision}", "12")
        async with manager.http.request(method.upper(), f"{filled}?nonsense=1", json={}, headers=headers) as response:
            problem = await problem_of(response, 400)
        assert problem["errors"][0]["field"] == "nonsense", path


async def test_the_document_is_served(manager: Managed) -> None:
    served = await manager.get("/api/v1/openapi.json")
    assert served == json.loads(json.dumps(document()))


def test_the_schema_of_a_job_has_its_fields() -> None:
    triggers = {"cronExpr", "every", "offset", "after", "at"}
    plain = JobSpec(name="j", command="echo").to_document()
    assert set(job_schema()["properties"]) == set(plain) | triggers


def test_a_job_as_it_is_shown_can_be_saved_again() -> None:
    spec = parse_job({"name": "j", "command": ["echo", "a"], "every": "5m", "workers": {"zone": ["a", "b"]}})
    assert parse_job(spec.to_document()) == spec


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["a job that is there", "any job"])
async def test_whatever_the_document_allows_and_more_never_ends_in_a_500(
    working_manager: Managed, tmp_path: Path, known: bool
) -> None:
    """Schemathesis makes requests from the document, good and bad ones, and looks at each answer.

    Its phase `coverage` goes through what each field may be, which once is enough: on a job that is there, and of each
    definition where it is first saved.
    """
    phases = "coverage,fuzzing" if known else "fuzzing"
    if known:
        job = (await working_manager.call("PUT", "/api/v1/jobs/j", {"command": "a", "cronExpr": "@yearly"}))["job"]
        await working_manager.write([record_of(RunId.planned("j", 1000))])
        parameters = {"path.name": "j", "path.id": "j%401000%231", "path.revision": job["revision"]}
        lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in parameters.items()]
        for method, path in _READ_AS_ELSEWHERE:
            lines += ["[[operations]]", f'include-method = "{method}"', f'include-path = "/api/v1/{path}"']
            lines += ["phases.coverage.enabled = false"]
        (tmp_path / "schemathesis.toml").write_text("\n".join(["[parameters]", *lines, ""]))
    known_as = await as_administrator(working_manager)
    url = str(working_manager.http.make_url("/")).rstrip("/")
    printed, status = await schemathesis(url, tmp_path, phases, known_as)
    assert status == 0, printed[-6000:]
    assert "not_a_server_error" not in printed


async def schemathesis(url: str, directory: Path, phases: str, headers: dict[str, str]) -> tuple[str, int]:
    """What it prints, and its exit status."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json", "--url", url,
        "--checks", _CHECKS, "--exclude-path", "/api/v1/events", "--phases", phases, "--mode", "all",
        *(part for name, value in headers.items() for part in ("--header", f"{name}: {value}")),
        "--max-examples", str(_EXAMPLES), "--seed", "1", "--no-color", "--generation-database", "none",
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        # What it has worked out of Unicode is kept beside our own: to do so anew takes it more than a second.
        env={"PATH": os.environ["PATH"], "HOME": str(directory), "HYPOTHESIS_STORAGE_DIRECTORY": str(_KEPT)},
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return printed.decode(errors="replace"), process.returncode
