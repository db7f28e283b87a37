"""Every record that a manager shows, page by page."""

from __future__ import annotations

from typing import Any, Final

import aiohttp

from bench.figures import WrongError

_PAGE: Final = "500"


async def all_records(http: aiohttp.ClientSession, url: str) -> list[dict[str, Any]]:
    """The whole of /api/v1/runs; empty where the log store has its hands full."""
    items: list[dict[str, Any]] = []
    query = {"limit": _PAGE}
    while True:
        async with http.get(f"{url}/api/v1/runs", params=query) as answer:
            if answer.status == 503:
                return []
            page = await answer.json()
        items += [run for run in page["items"] if run["state"] == "finished"]
        if page["nextCursor"] is None:
            return items
        query["cursor"] = page["nextCursor"]


def once_each(records: list[dict[str, Any]], jobs: int) -> list[dict[str, Any]]:
    """The records, where they are of so many jobs, one each, and all say success; else WrongError."""
    ran = [record for record in records if record["status"] == "success"]
    names = {record["jobName"] for record in ran}
    if not len(records) == len(ran) == len(names) == jobs:
        raise WrongError(f"{len(records)} records of {jobs} fires: {len(ran)} ran, of {len(names)} jobs")
    return ran
