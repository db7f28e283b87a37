"""The audit in the log store: entries are inserted once, found by what they say, and walked chain by chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.access.audit_chain import Entry, Head, Note, Outcome, Walk
from common.errors import InvalidInputError
from common.runlog import AuditFilter, RunLog

NOON = 1_790_000_000_000


def note(number: int, **changes: Any) -> Note:
    made = Note(
        ms=NOON + number, who="alice", via="session", address="10.0.0.1", action="job.save", object="job backup",
        outcome=Outcome.DONE, details={"$set": {"a.b": number}},
    )  # fmt: skip
    return replace(made, **changes)


def chain(name: str, *notes: Note) -> list[Entry]:
    head, entries = Head(chain=name), list[Entry]()
    for one in notes:
        entries.append(Entry.after(head, one.bounded()))
        head = Head(chain=name, seq=entries[-1].seq, hash=entries[-1].hash)
    return entries


async def found(runlog: RunLog, limit: int = 10, **wanted: Any) -> list[int]:
    """The times after noon of all entries that are found, by pages."""
    times, cursor = list[int](), None
    while True:
        page = await runlog.audit(AuditFilter(**wanted), cursor=cursor, limit=limit)
        times += [entry.note.ms - NOON for entry, _ in page.items]
        if (cursor := page.next_cursor) is None:
            return times


async def test_entries_are_stored_once_however_often_they_are_put(runlog: RunLog) -> None:
    await runlog.prepare_audit()
    entries = chain("one", *map(note, range(5)))
    assert await runlog.put_audit(entries[:3]) == []
    assert await runlog.put_audit(entries) == []
    assert await runlog.put_audit(entries[1:4]) == []
    page = await runlog.audit(AuditFilter(), cursor=None, limit=10)
    assert page.items == tuple((entry, entry.hash) for entry in reversed(entries))


async def test_entry_whose_place_somebody_has_taken_is_told_by_its_number(runlog: RunLog) -> None:
    entries = chain("one", *map(note, range(3)))
    forged = chain("one", note(0), note(1, who="mallory"))
    assert await runlog.put_audit(forged[1:]) == []
    assert await runlog.put_audit(entries) == [2]
    assert await runlog.put_audit(entries) == [2]


async def test_each_filter_finds_its_entries_newest_first_by_pages_of_any_size(runlog: RunLog) -> None:
    await runlog.prepare_audit()
    odd = ("2026-01-01T00:00:00Z", "007", "a\0b", "\udcff", "=x")
    await runlog.put_audit(chain(
        "one", *map(note, range(4)), note(10, who="bob"), note(11, action="run.kill", object="run 2026-01-01"),
        note(12, who="bob", action="run.kill", outcome=Outcome.REFUSED),
    ))  # fmt: skip
    await runlog.put_audit(chain("two", *(note(20 + place, who=who) for place, who in enumerate(odd))))
    for limit in (1, 2, 3, 50):
        assert await found(runlog, limit) == [24, 23, 22, 21, 20, 12, 11, 10, 3, 2, 1, 0]
        assert await found(runlog, limit, who="bob") == [12, 10]
        assert await found(runlog, limit, action="run.kill") == [12, 11]
        assert await found(runlog, limit, action="run.kill", who="bob") == [12]
        assert await found(runlog, limit, object="run 2026-01-01") == [11]
        assert await found(runlog, limit, outcome=Outcome.REFUSED) == [12]
        assert await found(runlog, limit, from_ms=NOON + 2, to_ms=NOON + 11) == [10, 3, 2]
    for place, who in enumerate(odd):
        assert await found(runlog, who=who) == [20 + place]


async def test_page_ends_where_enough_was_looked_at_and_goes_on_from_there(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.runlog.audit._LOOKED_AT", 20)
    monkeypatch.setattr("common.runlog.audit._STEP", 10)
    rare = [note(number, action="run.kill" if number == 3 else "job.save") for number in range(50)]
    await runlog.put_audit(chain("one", *rare))
    first = await runlog.audit(AuditFilter(object="job backup", action="run.kill"), cursor=None, limit=5)
    assert (first.items, first.next_cursor is not None) == ((), True)
    assert await found(runlog, 5, object="job backup", action="run.kill") == [3]


@pytest.mark.parametrize("cursor", ["x", "YXVkaXQv", "MDAwMDAwMDAwMDAwMDAwMC8"])
async def test_cursor_of_another_list_is_refused(runlog: RunLog, cursor: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        await runlog.audit(AuditFilter(), cursor=cursor, limit=5)


async def test_chains_are_walked_one_after_the_other_each_in_its_order(runlog: RunLog) -> None:
    one, two = chain("host.1", *map(note, range(12))), chain("host.10", *map(note, range(3)))
    await runlog.put_audit([*one[6:], *two])
    await runlog.put_audit(one[:6])
    walks, last = dict[str, Walk](), ""
    while kept := await runlog.audit_behind(last, limit=4):
        for entry in kept:
            walks.setdefault(entry.chain, Walk(chain=entry.chain)).take(entry.text, entry.hash, None, fits=entry.fits)
        last = kept[-1].id
    assert [(name, walked.seq, walked.problem) for name, walked in walks.items()] == [
        ("host.1", 12, None), ("host.10", 3, None),
    ]  # fmt: skip


async def test_what_somebody_else_writes_is_left_out_of_lists_and_named_by_a_walk(
    runlog: RunLog, caplog: pytest.LogCaptureFixture
) -> None:
    entries = chain("one", *map(note, range(4)))
    await runlog.put_audit(entries)
    collection = runlog._audit._collection
    await collection.update_one({"_id": "audit/one/000000000002"}, {"$set": {"who": "=mallory"}})
    await collection.insert_one({"_id": "elsewhere", "key": f"audit/{NOON:016d}/x/1", "text": entries[0].text})
    assert await found(runlog) == [3, 2, 0]
    assert {one.__dict__.get("id") for one in caplog.records} == {"audit/one/000000000002", "elsewhere"}
    walked = Walk(chain="one")
    for kept in await runlog.audit_behind("", limit=10):
        walked.take(kept.text, kept.hash, None, fits=kept.fits)
    assert walked.problem == "entry 2 was changed: what it is found by does not say what its text says"
