"""``/api/v1/audit``: who did what, newest first; and whether what is kept of it holds together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.audit_chain import Entry, Head, Outcome, Walk, waiting
from common.access.rights import Role
from common.cursors import decode_cursor, encode_cursor
from common.errors import InvalidInputError, Problem
from common.protocol.access_keys import AccessKeys
from common.runlog import AuditFilter, KeptEntry
from manager.access.needs import needs
from manager.api.schemas import text
from manager.http.queries import Cursor, Instant, Limit, Meaning, Query, single, word
from manager.parts import PARTS, Parts, answer

_A_PAGE: Final = 2_000
"""Entries that one call verifies."""
_AT_ONCE: Final = 500
_MOST_CHAINS: Final = 10_000


class AuditQuery(Query):
    who: Annotated[str | None, single(text(300)), Meaning("By them.")]
    action: Annotated[str | None, single(text(60)), Meaning("This word, e.g. `job.save`.")]
    object: Annotated[str | None, single(text(400)), Meaning("On this, e.g. `job backup`.")]
    outcome: Annotated[Outcome | None, word(Outcome), Meaning("That came to this.")]
    from_ms: Annotated[Instant, Meaning("From here on.", name="from")]
    to: Annotated[Instant, Meaning("Before.")]
    cursor: Cursor
    limit: Limit


class VerifyQuery(Query):
    cursor: Cursor


def add_routes(app: web.Application) -> None:
    """The calls."""
    app.router.add_get("/api/v1/audit", list_audit)
    app.router.add_get("/api/v1/audit/verify", verify_audit)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def list_audit(request: web.Request) -> web.Response:
    """A page of what the log store has; it looks at 2,000 entries at most, so it may be short, with a next one."""
    parts, asked = request.app[PARTS], AuditQuery.read(request)
    wanted = AuditFilter(
        who=asked.who, action=asked.action, object=asked.object, outcome=asked.outcome, from_ms=asked.from_ms,
        to_ms=asked.to,
    )  # fmt: skip
    page = await parts.runlog.audit(
        wanted, cursor=asked.cursor, limit=asked.limit, deadline_seconds=parts.write_timeout_s
    )
    items = [_item(entry, hash_) for entry, hash_ in page.items]
    count = parts.audit.waiting
    late = [f"{count} entries of this manager are not in the log store yet, and not in this list"] if count else []
    return answer({"items": items, "nextCursor": page.next_cursor, "waiting": count, "warnings": late})


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def verify_audit(request: web.Request) -> web.Response:
    """Goes on from the cursor by 2,000 entries: the chains that end among them, each with its first break.

    ``whole``: whether these hold. A chain that goes on behind the page is in the answer that comes to its end.
    """
    parts, asked = request.app[PARTS], VerifyQuery.read(request)
    heads = await _heads(parts)
    last_id, walk = _read_cursor(asked.cursor)
    chains = list[dict[str, Any]]()
    seen = 0
    while seen < _A_PAGE:
        found = await parts.runlog.audit_behind(last_id, limit=_AT_ONCE, deadline_seconds=parts.write_timeout_s)
        for kept in found:
            walk, last_id = _step(kept, walk, last_id, heads, chains), kept.id
        seen += len(found)
        if len(found) < _AT_ONCE:
            chains += _ended(walk, None, heads)
            return _verified(chains, None)
    return _verified(chains, _cursor(last_id, walk))


def _verified(chains: list[dict[str, Any]], cursor: str | None) -> web.Response:
    whole = all(chain["problem"] is None for chain in chains)
    return answer({"items": chains, "whole": whole, "nextCursor": cursor})


def _step(
    kept: KeptEntry, walk: Walk | None, last_id: str, heads: Mapping[str, Head], chains: list[dict[str, Any]]
) -> Walk:  # fmt: skip
    """The walk that the entry belongs to; the one before has ended, and so have chains without any entry between."""
    if walk is None or walk.chain != kept.chain:
        chains += _ended(walk, kept.chain, heads)
        walk = Walk(chain=kept.chain)
    walk.take(kept.text, kept.hash, heads.get(kept.chain), fits=kept.fits)
    return walk


def _ended(walk: Walk | None, following: str | None, heads: Mapping[str, Head]) -> list[dict[str, Any]]:
    """The chain that has ended, and those that etcd knows and the log store does not, up to the following one.

    Chains come in the order of their ids, which is that of their names with a ``/`` behind them.
    """
    chains = []
    if walk is not None:
        walk.end(heads.get(walk.chain))
        chains.append(_chain(walk, heads.get(walk.chain)))
    after = "" if walk is None else f"{walk.chain}/"
    for name in sorted(heads, key=lambda one: f"{one}/"):
        if f"{name}/" > after and (following is None or f"{name}/" < f"{following}/"):
            empty = Walk(chain=name)
            empty.end(heads[name])
            chains.append(_chain(empty, heads[name]))
    return chains


def _chain(walk: Walk, head: Head | None) -> dict[str, Any]:
    return {
        "chain": walk.chain, "entries": walk.seq, "problem": walk.problem, "waiting": waiting(walk, head),
        "head": None if head is None else {"seq": head.seq, "hash": head.hash, "ms": head.ms},
    }  # fmt: skip


async def _heads(parts: Parts) -> dict[str, Head]:
    keys, heads = AccessKeys(parts.config.key_prefix), dict[str, Head]()
    async for page in parts.etcd.read_prefix(keys.audit):
        for kv in page.kvs:
            chain = keys.name_of(kv.key)
            try:
                heads[chain] = Head.from_json(kv.value, chain=chain)
            except ValueError:
                continue  # then its chain is told to have none
        if len(heads) > _MOST_CHAINS:
            break
    return heads


def _item(entry: Entry, hash_: str) -> dict[str, Any]:
    document = entry.to_document()
    del document["before"]
    return {**document, "hash": hash_}


def _cursor(last_id: str, walk: Walk | None) -> str:
    at = [last_id, *([] if walk is None else [walk.chain, walk.seq, walk.hash, walk.problem])]
    return encode_cursor(json.dumps(at))


def _read_cursor(cursor: str | None) -> tuple[str, Walk | None]:
    """Where to go on. A caller who makes one up deceives themselves alone."""
    if cursor is None:
        return "", None
    try:
        at = json.loads(decode_cursor(cursor))
        last_id, chain, seq, hash_, problem = at
        if not (isinstance(seq, int) and all(isinstance(one, str) for one in (last_id, chain, hash_))):
            raise ValueError("not of these types")
        return last_id, Walk(chain=chain, seq=seq, hash=hash_, problem=None if problem is None else str(problem))
    except (ValueError, TypeError, RecursionError):
        remedy = "give the nextCursor of the call before, unchanged, or leave it out"
        problem = Problem(field="cursor", message="is not a cursor of this call", remedy=remedy)
        raise InvalidInputError([problem]) from None
