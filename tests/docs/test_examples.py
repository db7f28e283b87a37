"""The examples in YAML and JSON that the documentation shows are read by what reads them for users."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from cli.manifests.yaml_text import read_documents
from common.configuration.config import keys_of
from common.jobs.reader import parse_job
from common.notices.channels import CHANNEL
from common.notices.rules import RULE
from common.schedules.moment import parse_moment
from manager.views.advice import schedule_problems
from tests.docs.blocks import PAGES, Block, blocks_of
from worker.secrets import Lookup, Secrets

BLOCKS: Final = [block for page in PAGES for block in blocks_of(page) if block.language in ("yaml", "json")]
_NOW_MS: Final = parse_moment("2026-11-21T00:00Z").ms
_NOT_OURS: Final = {"scrape_configs", "services"}
"""What only other programs read begins with these."""


@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_the_example_is_read(block: Block, tmp_path: Path) -> None:
    documents = list(read_documents(block.text)) if block.language == "yaml" else [_object(block.text)]
    assert documents
    for document in documents:
        if "allow" in document:
            await _read_secrets_file(document, tmp_path)
        else:
            _read(document)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_job_calls_etcron_by_its_path(page: Path) -> None:
    """Jobs have cron's PATH, in which there is none."""
    bare = r"^command: (?:.*[&;] *)?etcron |--command '(?:[^']*[\n&;] *)?etcron "
    assert not re.search(bare, page.read_text(), re.MULTILINE)


def _object(text: str) -> Any:
    """A JSON document; members alone are those of one."""
    return json.loads(text if text.lstrip().startswith(("{", "[")) else f"{{{text.strip().rstrip(',')}}}")


def _read(document: Mapping[str, Any]) -> None:
    if document.keys() & _NOT_OURS:
        return
    if document.keys() & {"jobs", "channels", "rules"}:
        for job in document.get("jobs", ()):
            _read_job(job)
        for channel in document.get("channels", ()):
            assert CHANNEL.read(_nameless(channel)).problems() == []
        for rule in document.get("rules", ()):
            assert RULE.read(_nameless(rule)).problems() == []
    elif "kind" in document:
        assert CHANNEL.read(document).problems() == []
    elif document.keys() <= keys_of("manager").keys() | keys_of("worker").keys():
        for name, value in document.items():
            (keys_of("manager") | keys_of("worker"))[name].kind.accept(value)
    else:
        _read_job({"name": "some-job", "command": "true", **document} if "name" not in document else document)


async def _read_secrets_file(document: Mapping[str, Any], directory: Path) -> None:
    """A job that it allows gets its secret."""
    (file := directory / "secrets.json").write_text(json.dumps({**document, "directory": str(directory)}))
    (value := directory / "pg" / "prod").parent.mkdir()
    value.write_text("hush")
    for one in (file, value):
        one.chmod(0o600)
    job = {"name": "j", "command": "true", "every": "1d", "labels": {"team": "billing"}, "user": "postgres"}
    run = await Secrets(file, runtime=directory, default_user=None).of(
        parse_job({**job, "secrets": {"PGPASSWORD": "pg/prod"}}), Lookup()
    )
    assert run.env == {"PGPASSWORD": "hush"}


def _read_job(document: Mapping[str, Any]) -> None:
    given = dict(document) if document.keys() & {"cronExpr", "every", "after", "at"} else {**document, "every": "1d"}
    assert schedule_problems(parse_job(given), now_ms=_NOW_MS) == []


def _nameless(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "name"}
