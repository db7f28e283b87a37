"""``python -m cli.processes.embedded_log_store``: nx-27017, which takes text for text; one commit for each command.

nx-27017 0.8 compares a text that begins like a date (a job called ``2024-01-01-backup``) as a date, and finds nothing.
etcron stores no dates, so that reading of a text is switched off. Real MongoDB has no such reading.

It commits, and with a journaled write concern waits for the disk, once for each document. Real MongoDB waits once for
a command, and so do we: all that one command inserts, updates or deletes is one transaction of SQLite.

It listens on a port alone, which every user of the machine can reach. Where its host is a path, ours is a Unix socket.

It copies each document through and through, and has SQLite parse the JSON that it has just made, before it inserts it:
half of what an insert costs. Ours are inserted as they are. So it does with each document that it has just read, before
it leaves fields away: a fifth of what a page costs. Ours are copied field by field.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from copy import copy
from datetime import date
from typing import Any

_WRITES = frozenset({"insert", "update", "delete"})


class NotCommittedError(Exception):
    """The disk took less than the command wrote, and nothing of it was kept. Send the command again."""


def is_date(value: Any) -> bool:
    """Whether a value of a query is a date: no text is."""
    return isinstance(value, date)


def committed_once(handle: Callable[..., Any]) -> Callable[..., Any]:
    """A handler's method, whose writes for one command are committed together or not at all.

    A document that is refused (its key is there already) leaves the others as they are. Whoever waits for the answer
    learns of a commit that failed: the command fails as a whole, NotCommittedError or SQLite's own.
    """

    @functools.wraps(handle)
    def together(handler: Any, message: Mapping[str, Any]) -> Any:
        body: Mapping[str, Any] = next((part for kind, part in message["sections"] if kind == "body"), {})
        name = body.get("$db")
        if name is None or not _WRITES.intersection(body):
            return handle(handler, message)
        with handler._lock_for(name):
            database = handler.get_database(name)
            if database.db.in_transaction:
                return handle(handler, message)
            # Within a transaction SQLite does not change how a commit is made safe.
            handler._apply_write_concern(database, name, body.get("writeConcern"))
            return _committed(database.db, functools.partial(handle, handler, message))

    return together


def _committed(connection: Any, write: Callable[[], Any]) -> Any:
    connection.execute("BEGIN IMMEDIATE")
    try:
        answer = write()
        if not connection.in_transaction:
            raise NotCommittedError(f"the disk refused a write: {NotCommittedError.__doc__}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answer


def inserted_plainly(insert: Callable[..., Any], as_json: Callable[[Any], str], table_of: Callable[[str], str]) -> Any:
    """`insert` of nx-27017's query helper for documents that have an ``_id`` and can be written as JSON right away."""

    @functools.wraps(insert)
    def plainly(helper: Any, document: dict[str, Any]) -> Any:
        own_id = document.get("_id")
        if own_id is None:
            return insert(helper, document)
        try:
            text = as_json(document)
        except (TypeError, ValueError):
            return insert(helper, document)
        table = table_of(helper.collection.name)
        helper.collection.db.execute(f"INSERT INTO {table}(data, _id) VALUES (?, ?)", (text, str(own_id)))
        return own_id

    return plainly


def at_path(serve: Callable[..., Any], handle_client: Callable[..., Any]) -> Callable[..., Any]:
    """nx-27017's server, which takes the path of a Unix socket for a host."""

    async def serve_there(host: str, port: int, handler: Any) -> None:
        if not host.startswith("/"):
            await serve(host, port, handler)
            return
        server = await asyncio.start_unix_server(functools.partial(handle_client, handler=handler), host)
        async with server:
            await server.serve_forever()

    return serve_there


def main() -> None:
    """Serve, with nx-27017's own command line."""
    from neosqlite.collection import datetime_utils
    from neosqlite.collection.json_helpers import neosqlite_json_dumps
    from neosqlite.collection.query_helper import QueryHelper, aggregation
    from neosqlite.sql_utils import quote_table_name
    from nx_27017 import server
    from nx_27017.handler import NeoSQLiteHandler
    from nx_27017.nx_27017 import main as serve

    datetime_utils.is_datetime_value = is_date
    aggregation.deepcopy = copy
    QueryHelper._internal_insert = inserted_plainly(
        QueryHelper._internal_insert, neosqlite_json_dumps, quote_table_name
    )
    NeoSQLiteHandler.handle_insert = committed_once(NeoSQLiteHandler.handle_insert)
    NeoSQLiteHandler.handle_command = committed_once(NeoSQLiteHandler.handle_command)
    server.run_server = at_path(server.run_server, server.handle_client)
    serve()


if __name__ == "__main__":
    main()
