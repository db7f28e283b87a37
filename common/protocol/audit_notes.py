"""Notes for the audit. `etcron admin` and `etcron signing` have etcd, and no chain: they leave a note there, which the
first manager that sees it takes into its own chain.
"""

from __future__ import annotations

import json

from common.access.audit_chain import Note, Outcome
from common.protocol.access_keys import AccessKeys
from common.protocol.compares import mod_revision_is
from common.protocol.txn import Delete, KeyValue, Put, Txn


def put(keys: AccessKeys, note_id: str, note: Note) -> Txn:
    """For the next manager that looks."""
    value = {"ms": note.ms, "who": note.who, "action": note.action, "object": note.object, "details": note.details}
    return Txn([], [Put(keys.note(note_id), json.dumps(value).encode())])


def take(kv: KeyValue) -> Txn:
    """It is the manager's that has deleted it."""
    return Txn([mod_revision_is(kv.key, kv.mod_revision)], [Delete(kv.key)])


def read(kv: KeyValue) -> Note:
    """The note in a key; one that cannot be read is an entry that says so, and when it was taken is not known."""
    try:
        value = json.loads(kv.value)
        ms, who, action, of, details = (value[name] for name in ("ms", "who", "action", "object", "details"))
        if type(ms) is int and ms >= 0 and isinstance(details, dict) and all(type(t) is str for t in (who, action, of)):
            return Note(
                ms=ms, who=who, via="", address="", action=action, object=of, outcome=Outcome.DONE, details=details
            )
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    return Note(
        ms=0, who="", via="", address="", action="audit.note", object=f"key {kv.key}", outcome=Outcome.FAILED,
        details={"why": "a note that was left for the audit cannot be read"},
    )  # fmt: skip
