"""What of a job waits: fires that are due and decided by nobody, runs that were asked for. Each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

from cli.client import Client, Document, job_path
from cli.errors import CommandError, ExitStatus
from cli.times import local


def waits_of(client: Client, name: str) -> list[str]:
    """A line each; none where there is no such job. While the log store is away, those of fires alone."""
    fires = _known(client, job_path(name, "fires"), {}).get("recent", ())
    runs = _known(client, "/api/v1/runs", {"job": name, "limit": 1}).get("waiting") or ()
    waiting = [f"{_fires(fire)}: {fire['reason']}" for fire in fires if fire["verdict"] == "waiting"]
    return waiting + [f"{run['id']}, planned {local(run.get('planTime'))}, for {_what(run)}" for run in runs]


def _known(client: Client, path: str, query: Mapping[str, str | int]) -> Document:
    """What is there; nothing where it is not, or cannot be reached."""
    try:
        found: Document = client.get(path, query)
    except CommandError as error:
        if error.status in (ExitStatus.NOT_FOUND, ExitStatus.UNAVAILABLE):
            return {}
        raise
    return found


def _what(run: Document) -> str:
    is_early = run["waitsForKind"] == "time"
    return f"its time, {local(run.get('notBefore'))}" if is_early else str(run["waitsFor"])


def _fires(fire: Document) -> str:
    if fire.get("count"):
        return f"{fire['count']} fires since {local(fire['planTime'])}"
    return f"the fire of {local(fire['planTime'])}"
