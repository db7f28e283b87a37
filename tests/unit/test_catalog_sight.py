"""Which jobs of the catalog a caller may know of, while jobs come, go and change hands."""

from __future__ import annotations

import asyncio
import json
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from common.access.rights import OWNER, Grant, Rights, Role
from common.access.selectors import EVERYTHING, Selector
from common.etcd import Change
from common.protocol.keys import Keys
from common.protocol.txn import KeyValue
from manager.watch.catalog import Catalog, JobQuery
from tests.support.access import ChangingCaller

KEYS = Keys("/test")
NAMES = [f"job-{number}" for number in range(6)]
BROKEN, GONE = "broken", "gone"
STATES = ["a", "b", "none", BROKEN, GONE]


def rights(role: Role, *teams: str) -> Rights:
    labels = Selector.of({"team": teams}) if teams else EVERYTHING
    return Rights((Grant(role=role, labels=labels, run_as=None, workers=EVERYTHING),))


CALLERS = {
    "of a": (rights(Role.VIEWER, "a"), {"a"}),
    "of a and b": (rights(Role.VIEWER, "a", "b"), {"a", "b"}),
    "who reads all": (rights(Role.VIEWER), {"a", "b", "none"}),
    "owner": (OWNER, {"a", "b", "none", BROKEN}),
    "without bindings": (Rights(), set[str]()),
}
"""What each may know of, by the state of a job."""


def change(name: str, state: str, revision: int) -> Change:
    if state == GONE:
        return Change(key=KEYS.job(name), old_mod=None, new=None)
    labels = {} if state == "none" else {"team": state}
    document = {"name": name, "command": "true", "cronExpr": "@daily", "anchorMs": 1, "labels": labels}
    value = b"no job" if state == BROKEN else json.dumps(document).encode()
    kv = KeyValue(
        key=KEYS.job(name), value=value, create_revision=revision, mod_revision=revision, version=1, lease=0
    )  # fmt: skip
    return Change(key=KEYS.job(name), old_mod=None, new=kv)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(STATES)), max_size=30))
async def test_pages_show_what_each_caller_may_know_of_after_each_change(steps: list[tuple[str, str]]) -> None:
    catalog, revisions = Catalog(KEYS, on_changed=lambda name, labels: None), count(1)
    there: dict[str, str] = {}
    for name, state in steps:
        catalog.on_changes([change(name, state, next(revisions))])
        there = {**there, name: state}
        for who, (of, states) in CALLERS.items():
            page = await catalog.page(JobQuery(), of, cursor=None, limit=100)
            expected = sorted(name for name, state in there.items() if state in states)
            assert [job.name for job in page.jobs] == expected, who
            assert page.total == len(expected)


async def test_rights_that_one_caller_gets_or_loses_change_nothing_that_others_are_shown() -> None:
    """In a call that changes something they are looked up each time; and it is the first by rights like these."""
    catalog, alice = Catalog(KEYS, on_changed=lambda name, labels: None), ChangingCaller(rights(Role.EDITOR, "a"))
    catalog.on_changes([change("job-0", "a", 1), change("job-1", "b", 2)])

    async def shown() -> list[str]:
        page = await catalog.page(JobQuery(), CALLERS["of a"][0], cursor=None, limit=100)
        assert page.total == len(page.jobs)
        return [job.name for job in page.jobs]

    assert await catalog.matching(JobQuery(), await alice.posts()) == ("job-0",)
    alice.rights = rights(Role.EDITOR, "a", "b")
    catalog.on_changes([change("job-2", "b", 3)])
    assert await shown() == ["job-0"]
    alice.rights = None
    catalog.on_changes([change("job-3", "a", 4), change("job-0", "b", 5)])
    assert await shown() == ["job-3"]
    catalog.on_changes([change("job-3", GONE, 6)])
    assert await shown() == []


async def test_search_of_many_jobs_leaves_the_loop_to_others_and_misses_no_change() -> None:
    catalog = Catalog(KEYS, on_changed=lambda name, labels: None)
    catalog.on_changes([change(f"job-{number:05}", "a", number + 1) for number in range(6_000)])
    query = JobQuery(text="job-")

    async def edit() -> None:
        """Between two parts of the search: one that was found goes, and one that is still to come."""
        await asyncio.sleep(0)
        catalog.on_changes([change("job-00000", GONE, 7_000), change("job-05999", GONE, 7_001)])

    page, _ = await asyncio.gather(catalog.page(query, OWNER, cursor=None, limit=10), edit())
    assert (page.total, "job-05999" in catalog) == (5_999, False)
    following = await catalog.page(query, OWNER, cursor=page.next_cursor, limit=10)
    assert [job.name for job in following.jobs] == [f"job-{number:05}" for number in range(10, 20)]
    assert len(await catalog.matching(query, OWNER)) == 5_998


def test_listener_hears_the_labels_before_and_after() -> None:
    heard: list[tuple[str, list[object]]] = []
    catalog = Catalog(KEYS, on_changed=lambda name, labels: heard.append((name, list(labels))))
    for revision, state in enumerate(("a", "b", BROKEN, GONE), 1):
        catalog.on_changes([change("job-0", state, revision)])
    a, b = {"team": "a"}, {"team": "b"}
    assert heard == [("job-0", [a]), ("job-0", [a, b]), ("job-0", [b, None]), ("job-0", [None])]
