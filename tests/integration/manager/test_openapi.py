"""The OpenAPI document says what there is, no more and no less, and nothing that it allows breaks a manager."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from aiohttp.web import Application

from common.access.rights import Role
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.jobs.schema import job_schema
from common.protocol.keys import RunId
from manager.api.openapi import document
from manager.app import create_app
from tests.support.access import Accessing, as_administrator, kept_of
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import record_of

_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
_ROOT = Path(__file__).parents[3]
_KEPT = _ROOT / ".hypothesis"
_WITH_A_BODY: Final = ("POST", "PUT")
"""Methods of which each member of each body is gone through elsewhere: test_plain_words.py."""
_OF_A_SESSION: Final = ("/api/v1/logout", "/api/v1/password")
"""Calls that end the session that makes them."""
_DELETED: Final = "deleted"
"""A job and a channel of this name are deleted; other calls look at "j"."""
_WITHOUT_END: Final = "/api/v1/events"
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
    """(method, path) of every call."""
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
async def test_whatever_the_document_allows_and_more_never_ends_in_a_500(
    working_manager: Managed, tmp_path: Path
) -> None:
    """Schemathesis makes requests from the document, good and bad ones, and looks at each answer.

    Its phase `coverage` goes through what each field may be, on things that are there: a job, a run, a version.
    """
    await as_administrator(working_manager)
    channel, job = {"kind": "webhook", "url": "https://hooks.example.org/"}, {"command": "a", "cronExpr": "@yearly"}
    for name in (_DELETED, "j"):
        await working_manager.call("PUT", f"/api/v1/channels/{name}", channel)
    await working_manager.call("PUT", f"/api/v1/jobs/{_DELETED}", job)
    saved = await working_manager.call("PUT", "/api/v1/jobs/j", job)
    await working_manager.write([record_of(RunId.planned("j", 1000))])
    there = {"path.name": "j", "path.id": "j%401000%231", "path.revision": saved["job"]["revision"]}
    await fuzz(working_manager, tmp_path, "coverage,fuzzing", [], parameters=there)
    assert unasked(working_manager, described()) == set()


@pytest.mark.slow
async def test_no_name_or_number_in_a_path_ends_in_a_500(working_manager: Managed, tmp_path: Path) -> None:
    await fuzz(working_manager, tmp_path, "fuzzing", ["--include-path-regex", "[{]"], parameters={})
    assert unasked(working_manager, {(method, path) for method, path in described() if "{" in path}) == set()


def unasked(manager: Managed, calls: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of these calls that were only told that a login is needed, or none that may."""
    asked = {(method.lower(), path) for method, path, status in manager.answered if status not in (401, 403)}
    return calls - asked - {("get", _WITHOUT_END)}


async def fuzz(
    manager: Managed, directory: Path, phases: str, only: Sequence[str], *, parameters: Mapping[str, object]
) -> None:
    """All answers to these calls are as the document says; the caller stays an administrator to the end.

    What ends a session, or changes its secrets, has one of its own, of a user who has a password.
    """
    access, password = Accessing(manager), await kept_of("three words in a row")
    await access.user("root", Role.ADMIN)
    cookie = await access.session("user:root")
    lines = ["[headers]", *_toml(cookie.headers), "[parameters]", *_toml(parameters)]
    for phase in ("coverage", "fuzzing"):
        lines += [f"[phases.{phase}.extra-data-sources]", "responses = false"]  # no id of the caller's own
    for number, path in enumerate(_OF_A_SESSION):
        await access.user(f"root{number}", Role.ADMIN, password=password)
        cookie = await access.session(f"user:root{number}")
        lines += ["[[operations]]", f'include-name = "POST {path}"', "[operations.headers]", *_toml(cookie.headers)]
    lines += ["[[operations]]", f"include-method = {json.dumps(_WITH_A_BODY)}", "phases.coverage.enabled = false"]
    if parameters:
        gone = {**parameters, "path.name": _DELETED}
        lines += ["[[operations]]", 'include-method = "DELETE"', "[operations.parameters]", *_toml(gone)]
    (directory / "schemathesis.toml").write_text("\n".join([*lines, ""]))
    url = str(manager.http.make_url("/")).rstrip("/")
    printed, status = await schemathesis(url, directory, phases, only)
    assert status == 0, printed[-6000:]
    assert "not_a_server_error" not in printed


def _toml(values: Mapping[str, object]) -> list[str]:
    return [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items()]


async def schemathesis(url: str, directory: Path, phases: str, only: Sequence[str]) -> tuple[str, int]:
    """What it prints, and its exit status."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "tests.support.fuzzing", "run", f"{url}/api/v1/openapi.json", "--url", url,
        "--checks", _CHECKS, "--exclude-path", _WITHOUT_END, "--phases", phases, "--mode", "all", *only,
        "--max-examples", str(_EXAMPLES), "--seed", "1", "--no-color", "--generation-database", "none",
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        # What it has worked out of Unicode is kept beside our own: to do so anew takes it more than a second.
        env={
            "PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(_ROOT),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(_KEPT),
        },
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return printed.decode(errors="replace"), process.returncode
