"""``queue`` and ``replace`` with real processes: what waits, what is skipped, and never two at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.cluster import EVERY_SECOND, Cluster, covered, running_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """For both: each has a job of its own."""
    async with running_cluster(tmp_path_factory.mktemp("overlap"), workers=2, managers=1) as running:
        yield running


def _say(what: str, path: Path) -> str:
    return f'echo {what} "$ETCRON_PLAN_MS" "$(date +%s%N)" >> {path}'


def _lines(path: Path) -> list[tuple[str, int, int]]:
    """(what, plan time, when in ns) of each line that the runs have written."""
    if not path.exists():
        return []
    words = [line.split() for line in path.read_text().splitlines()]
    return [(what, int(plan), int(when)) for what, plan, when in words]


def _overlaps(lines: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The begins that came while another run had begun and not ended, by the runs' own evidence."""
    going: set[int] = set()
    found = []
    for what, plan, when in sorted(lines, key=lambda one: one[2]):
        if what == "begin":
            if going:
                found.append((what, plan, when))
            going.add(plan)
        else:
            going.discard(plan)
    return found


async def _settled(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    """Every record of the job, once it is paused and nothing runs; each fire of it has exactly one."""
    await cluster.call("POST", f"/api/v1/jobs/{job}/pause", {})

    async def nothing_runs() -> bool:
        return not (await cluster.get(f"/api/v1/jobs/{job}"))["running"]

    await wait_until(nothing_runs, description=f"nothing of {job} runs")
    return await cluster.runs(job=job)


async def test_queue_runs_back_to_back_and_keeps_one_waiting(cluster: Cluster, tmp_path: Path) -> None:
    evidence = tmp_path / "lines"
    command = f"{_say('begin', evidence)}; sleep 3; {_say('end', evidence)}"
    await cluster.save("q", command, EVERY_SECOND, overlap="queue")
    ends = 4
    await wait_until(lambda: sum(line[0] == "end" for line in _lines(evidence)) >= ends, description="four runs")
    records = await _settled(cluster, "q")
    lines = _lines(evidence)
    assert _overlaps(lines) == []
    began = sorted(when for what, _, when in lines if what == "begin")
    gaps_s = [(later - earlier) / 1e9 for earlier, later in pairwise(began)]
    print("from begin to begin of a 3 s job every second:", [round(gap, 2) for gap in gaps_s])
    assert min(gaps_s) >= 3
    ran = sorted((one for one in records if one["status"] == "success"), key=lambda one: one["planTime"])
    assert len(ran) >= ends
    # What runs next is the newest that was due when the lock came free, so the others in between are skipped.
    waited_ms = [earlier["endTime"] - later["planTime"] for earlier, later in pairwise(ran)]
    assert max(waited_ms) > 0, "it was due before"
    assert min(waited_ms) <= 1000, "the newest"
    counts = covered(records, "q")
    assert set(counts.values()) == {1}
    assert sorted(counts) == list(range(min(counts), max(counts) + 1, 1000))
    statuses = Counter(one["status"] for one in records)
    assert {"success", "skipped"} <= set(statuses) <= {"success", "skipped", "missed"}
    assert all(one["reason"].startswith(("overlap", "paused")) for one in records if one["status"] == "skipped")


async def test_replace_ends_the_old_run_before_the_new_one_starts(cluster: Cluster, tmp_path: Path) -> None:
    evidence = tmp_path / "lines"
    end = _say("end", evidence)
    command = f"trap '{end}; exit 9' TERM; {_say('begin', evidence)}; sleep 60 & wait $!; {end}"
    await cluster.save("r", command, "*/2 * * * * * *", overlap="replace")
    await wait_until(lambda: sum(line[0] == "begin" for line in _lines(evidence)) >= 5, description="five runs")
    await cluster.call("POST", "/api/v1/jobs/r/pause", {})
    await cluster.call("POST", "/api/v1/jobs/r/kill", {})
    records = await _settled(cluster, "r")
    assert _overlaps(_lines(evidence)) == []
    replaced = [one for one in records if one["status"] == "killed" and one.get("reason") == "replaced"]
    assert len(replaced) >= 3
    assert set(covered(records, "r", 2000).values()) == {1}
