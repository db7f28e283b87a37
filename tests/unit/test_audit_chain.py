"""Every way of changing what is kept of the audit is found, and a whole chain is found whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from common.access.audit_chain import MAX_DETAILS, Entry, Head, Note, Outcome, Walk, waiting
from common.access.audit_diff import changes_of

Kept = list[tuple[str, str]]
"""Text and hash of each entry, as the log store has them."""

CHAIN = "host.0011223344556677"


def note(number: int, **changes: object) -> Note:
    made = Note(
        ms=1_790_000_000_000 + number, who="alice", via="session", address="10.0.0.1", action="job.save",
        object=f"job backup-{number}", outcome=Outcome.DONE, details={"reason": "why not"},
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def chain(length: int, name: str = CHAIN) -> tuple[list[Entry], Head]:
    head, entries = Head(chain=name), list[Entry]()
    for number in range(1, length + 1):
        entries.append(Entry.after(head, note(number)))
        head = Head(chain=name, seq=number, hash=entries[-1].hash, delivered=number)
    return entries, head


def kept(entries: list[Entry]) -> Kept:
    return [(entry.text, entry.hash) for entry in entries]


def walk(stored: Kept, head: Head | None) -> Walk:
    walked = Walk(chain=CHAIN)
    for text, said in stored:
        walked.take(text, said, head)
    walked.end(head)
    return walked


def rewritten_from(entries: list[Entry], place: int) -> list[Entry]:
    """All from there on, with another first one, by somebody who knows how hashes are made."""
    before = entries[place - 1]
    head = Head(chain=CHAIN, seq=before.seq, hash=before.hash)
    forged: list[Entry] = []
    for entry in entries[place:]:
        who = "mallory" if not forged else entry.note.who
        forged.append(Entry.after(head, replace(entry.note, who=who)))
        head = Head(chain=CHAIN, seq=forged[-1].seq, hash=forged[-1].hash)
    return [*entries[:place], *forged]


def with_another_who(entry: Entry, *, hash_too: bool) -> tuple[str, str]:
    forged = replace(entry, note=replace(entry.note, who="mallory"))
    return forged.text, forged.hash if hash_too else entry.hash


ATTACKS: dict[str, tuple[Callable[[list[Entry]], Kept], str]] = {
    "a text is changed": (
        lambda entries: [*kept(entries[:2]), with_another_who(entries[2], hash_too=False), *kept(entries[3:])],
        "entry 3 was changed: its text does not have its hash",
    ),
    "a text and its hash are changed": (
        lambda entries: [*kept(entries[:2]), with_another_who(entries[2], hash_too=True), *kept(entries[3:])],
        "entry 4 does not follow from the one before: one of the two was changed",
    ),
    "the last entry and its hash are changed": (
        lambda entries: [*kept(entries[:5]), with_another_who(entries[5], hash_too=True)],
        "entry 6 is not the one that the head names: the chain was written anew",
    ),
    "an entry is removed in the middle": (
        lambda entries: kept([*entries[:2], *entries[3:]]), "entry 3 is missing",
    ),
    "several are": (lambda entries: kept([*entries[:1], *entries[4:]]), "entry 2 to 4 is missing"),
    "the first is removed": (lambda entries: kept(entries[1:]), "entry 1 is missing"),
    "the last ones are removed": (lambda entries: kept(entries[:4]), "entries 5 to 6 are missing at the end"),
    "all are": (lambda entries: [], "entries 1 to 6 are missing at the end"),
    "two change places": (
        lambda entries: kept([entries[0], entries[2], entries[1], *entries[3:]]), "entry 2 is missing",
    ),
    "one is inserted under a number that there is": (
        lambda entries: kept([*entries[:3], Entry.after(Head(chain=CHAIN, seq=2, hash=entries[1].hash), note(99)),
                              *entries[3:]]),
        "entry 3 stands behind entry 3: inserted, or in another order",
    ),
    "one of another chain is inserted": (
        lambda entries: kept([*entries[:3], chain(4, "elsewhere")[0][3], *entries[4:]]),
        "entry 4 was inserted: it is of the chain elsewhere",
    ),
    "all behind an entry are written anew, with hashes that fit": (
        lambda entries: kept(rewritten_from(entries, 3)),
        "entry 6 is not the one that the head names: the chain was written anew",
    ),
    "a text is spelled in another way": (
        lambda entries: [(entries[0].text.replace(",", ", ", 1), entries[0].hash), *kept(entries[1:])],
        "entry 1 was changed: not an entry of the audit: it is spelled in another way",
    ),
    "a text is no entry": (
        lambda entries: [("[]", entries[0].hash)],
        "entry 1 was changed: not an entry of the audit: its members are not those of an entry",
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_tampering_is_found(attack: str) -> None:
    entries, head = chain(6)
    tampered, expected = ATTACKS[attack]
    assert walk(tampered(entries), head).problem == expected


def test_whole_chain_is_found_whole_also_where_it_goes_beyond_its_head() -> None:
    entries, head = chain(6)
    of_four = Head(chain=CHAIN, seq=4, hash=entries[3].hash, delivered=3)
    assert [walk(kept(entries), one).problem for one in (head, of_four)] == [None, None]


def test_entries_that_were_not_delivered_yet_are_not_missing() -> None:
    entries, head = chain(6)
    walked = walk(kept(entries[:4]), replace(head, delivered=4))
    assert (walked.problem, waiting(walked, replace(head, delivered=4))) == (None, 2)


def test_removed_head_is_told() -> None:
    entries, _ = chain(2)
    assert walk(kept(entries), None).problem == "etcd has no head of it: whether its end is missing cannot be told"


def test_entry_and_head_are_read_back_as_they_were() -> None:
    entries, head = chain(2)
    odd = Entry.after(head, note(3, who="\udcff \U0001f600", details={"a": [1, None, {"b": "\ud800"}]}).bounded())
    assert [Entry.parse(one.text) for one in (*entries, odd)] == [*entries, odd]
    assert Head.from_json(head.to_json(), chain=CHAIN) == head


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"seq":-1,"hash":"","delivered":0,"ms":0}', b"[" * 9999])
def test_value_that_is_no_head_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="not the head"):
        Head.from_json(value, chain=CHAIN)


def test_what_a_caller_chooses_does_not_make_an_entry_long() -> None:
    long = note(1, who="x" * 9999, object="y" * 9999, details={"note": "z" * MAX_DETAILS}).bounded()
    assert len(Entry.after(Head(chain=CHAIN), long).text) < 2_000
    assert long.details == {"cut": "too long to be kept", "members": ["note"]}


def test_change_of_a_job_is_told_without_the_values_of_its_environment() -> None:
    before = {"command": "a", "env": {"KEPT": "s3cret-1", "GONE": "s3cret-2", "SAME": "s3cret-3"}, "labels": {"a": "b"}}
    after = {"command": "b", "env": {"KEPT": "s3cret-4", "NEW": "s3cret-5", "SAME": "s3cret-3"}, "user": "backup"}
    changes = changes_of(before, after)
    assert changes == {
        "command": {"from": "a", "to": "b"}, "env": {"added": ["NEW"], "removed": ["GONE"], "changed": ["KEPT"]},
        "labels": {"from": {"a": "b"}}, "user": {"to": "backup"},
    }  # fmt: skip
    assert "s3cret" not in str(changes_of(None, after)) + str(changes_of(before, None)) + str(changes)


def test_long_command_is_told_by_its_beginning_and_its_digest() -> None:
    one, other = ("x" * 5_000 + end for end in "ab")
    change = changes_of({"command": one}, {"command": other})["command"]
    assert change["from"]["begins"] == change["to"]["begins"] == "x" * 1_000
    assert change["from"]["sha256"] != change["to"]["sha256"]
