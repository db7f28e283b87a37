"""Every field of a job through the manager: saved, read back from etcd as it was given, shown in words, previewed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli.manifests.files import read_manifests
from common.access.rights import Role
from common.jobs.job import TIMING
from common.jobs.reader import parse_job
from common.words.job_words import job_words
from tests.support.access import Accessing
from tests.support.managing import Managed, problem_of

CHANNEL = {"kind": "email", "to": ["ops@example.org"], "from": "etcron@example.org", "host": "mail.example.org"}
EXAMPLES = read_manifests([str(Path(__file__).resolve().parents[3] / "examples" / "jobs")])


async def test_every_example_is_saved_and_shown_as_it_was_given(manager: Managed) -> None:
    admin = await Accessing(manager).user("ann", Role.ADMIN)
    for channel in {one["to"] for example in EXAMPLES for one in example.document.get("notify", ())}:
        made = await manager.http.post("/api/v1/channels", json={**CHANNEL, "name": channel}, headers=admin)
        assert made.status == 201, await made.text()
    for example in EXAMPLES:
        response = await manager.http.put(f"/api/v1/jobs/{example.name}", json=example.document)
        assert response.status in (200, 201), await response.text()
    items = (await manager.get("/api/v1/jobs?limit=200"))["items"]
    shown = {item["name"]: item for item in items}
    for example in EXAMPLES:
        spec = parse_job(example.document)
        assert shown[example.name]["spec"] == spec.to_document()
        assert shown[example.name]["words"] == job_words(spec)


async def test_save_of_what_is_shown_changes_nothing(manager: Managed) -> None:
    example = next(example for example in EXAMPLES if "calendar" in example.document)
    await manager.http.put(f"/api/v1/jobs/{example.name}", json=example.document)
    before = await manager.get(f"/api/v1/jobs/{example.name}")
    response = await manager.http.put(f"/api/v1/jobs/{example.name}", json=before["spec"])
    assert response.status == 200, await response.text()
    assert (await manager.get(f"/api/v1/jobs/{example.name}"))["revision"] == before["revision"]


async def test_every_example_is_previewed(manager: Managed) -> None:
    for example in EXAMPLES:
        asked: dict[str, Any] = {name: value for name, value in example.document.items() if name in TIMING}
        response = await manager.http.post("/api/v1/schedule/preview", json=asked | {"n": 3, "name": example.name})
        answer = await response.json()
        assert response.status == 200, (example.name, answer)
        expected = 0 if "after" in asked else 1 if "at" in asked else 3
        assert len(answer["fires"]) == expected, example.name
        assert all(isinstance(fire["open"], bool) for fire in answer["fires"]), example.name


async def test_job_that_never_fires_again_is_refused_by_the_field_to_mend(manager: Managed) -> None:
    job = {"command": "a", "every": "5m", "calendar": {"include": ["2001-01-01"]}}
    response = await manager.http.put("/api/v1/jobs/j", json=job)
    [error] = (await problem_of(response, 400))["errors"]
    assert error["field"] == "calendar"
    response = await manager.http.put("/api/v1/jobs/j", json=job | {"enabled": False})
    assert response.status == 201
