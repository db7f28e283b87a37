"""Every example of a job is one, and together they show every field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.manifests.files import Manifest, read_manifests
from cli.manifests.yaml_text import read_documents
from common.jobs.job import JobSpec
from common.jobs.kinds import Object, members_of
from common.jobs.reader import parse_job
from common.schedules.moment import parse_moment
from manager.views.advice import schedule_problems

ROOT = Path(__file__).resolve().parents[2]
JOBS_MD = ROOT / "docs" / "guides" / "jobs.md"
EXAMPLES = read_manifests([str(ROOT / "examples" / "jobs")])
BLOCKS = re.findall(r"```yaml\n(.*?)```", JOBS_MD.read_text(encoding="utf-8"), re.DOTALL)
NOW_MS = parse_moment("2026-11-21T00:00Z").ms


def paths(document: Mapping[str, Any]) -> Iterable[str]:
    """The fields that a document gives, those of retry and misfire too."""
    for name, value in document.items():
        yield name
        if name in {"misfire", "retry"}:
            yield from (f"{name}.{inner}" for inner in value)


def all_paths() -> set[str]:
    fields = members_of(JobSpec)
    nested = {
        f"{name}.{member}"
        for name, field in fields.items()
        if isinstance(field.kind, Object)
        for member in field.kind.members
    }
    return nested | set(fields)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example_is_a_job_that_fires(example: Manifest) -> None:
    spec = parse_job(example.document)
    assert schedule_problems(spec, now_ms=NOW_MS) == []


def test_examples_show_every_field() -> None:
    assert {path for example in EXAMPLES for path in paths(example.document)} == all_paths()


def test_every_example_file_explains_itself() -> None:
    for path in (ROOT / "examples" / "jobs").glob("*.yaml"):
        assert path.read_text(encoding="utf-8").startswith("# "), path


def test_documentation_shows_every_field() -> None:
    shown = {path for block in BLOCKS for document in read_documents(block) for path in paths(document)}
    assert shown == all_paths()
