"""The jobs that `etcron up --example` saves on an empty store: what a newcomer sees in the first minute."""

from __future__ import annotations

import json

import aiohttp

JOBS: tuple[dict[str, object], ...] = (
    {
        "name": "hello",
        "command": 'echo "hello from $ETCRON_WORKER, planned for $ETCRON_PLAN_TIME"',
        "cronExpr": "*/5 * * * * * *",
    },
    {
        "name": "disk-space",
        "command": "df -h / | tail -1",
        "cronExpr": "*/20 * * * * * *",
        "timeoutSeconds": 10,
    },
    {
        "name": "fails-now-and-then",
        "command": 'if [ $((ETCRON_PLAN_MS / 15000 % 3)) = 0 ]; then echo "something broke" >&2; exit 3; fi; echo fine',
        "cronExpr": "*/15 * * * * * *",
    },
    {
        "name": "nightly-report",
        "command": "echo 'the report would be made here'",
        "cronExpr": "0 30 2 * * * *",
        "timezone": "Europe/Berlin",
        "misfire": {"policy": "latest"},
    },
)


async def save_examples(http: aiohttp.ClientSession, url: str) -> list[str]:
    """Save the examples where there is no job yet; the names of those saved. Raises aiohttp.ClientError."""
    async with http.get(f"{url}/job/list") as answer:
        answer.raise_for_status()
        if (await answer.json())["data"]:
            return []
    for job in JOBS:
        async with http.post(f"{url}/job/save", data={"job": json.dumps(job)}) as answer:
            answer.raise_for_status()
    return [str(job["name"]) for job in JOBS]
