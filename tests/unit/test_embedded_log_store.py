"""A command's writes in the embedded log store: on the disk together, or refused together."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.processes.embedded_log_store import NotCommittedError, committed_once, inserted_plainly

INSERT = {"sections": [("body", {"insert": "log", "$db": "cron", "writeConcern": {"j": True}})]}


@dataclass
class Database:
    """What the handler knows of a database."""

    db: sqlite3.Connection


class Handler:
    """A handler with one command, which writes what it is told to."""

    def __init__(self, connection: sqlite3.Connection, statements: list[str]) -> None:
        self._connection = connection
        self._statements = statements
        self.was_together: list[bool] = []
        self.concern: Any = None

    def _lock_for(self, name: str) -> Any:
        return nullcontext()

    def get_database(self, name: str) -> Database:
        return Database(self._connection)

    def _apply_write_concern(self, database: Database, name: str, concern: Any) -> None:
        assert not database.db.in_transaction
        self.concern = concern

    def _handle(self, message: Any) -> str:
        for statement in self._statements:
            self._connection.execute(statement)
            self.was_together.append(self._connection.in_transaction)
        return "done"

    handle = committed_once(_handle)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "cron.db", isolation_level=None)
    connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY)")
    yield connection
    connection.close()


def stored(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT id FROM log ORDER BY id")]


def test_writes_of_a_command_are_committed_together(connection: sqlite3.Connection) -> None:
    handler = Handler(connection, ["INSERT INTO log VALUES (1)", "INSERT INTO log VALUES (2)"])
    assert handler.handle(INSERT) == "done"
    assert (handler.was_together, handler.concern) == ([True, True], {"j": True})
    assert not connection.in_transaction
    assert stored(connection) == [1, 2]


def test_command_that_fails_leaves_nothing(connection: sqlite3.Connection) -> None:
    handler = Handler(connection, ["INSERT INTO log VALUES (1)", "INSERT INTO nowhere VALUES (1)"])
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        handler.handle(INSERT)
    assert not connection.in_transaction
    assert stored(connection) == []


def test_command_whose_writes_the_disk_has_thrown_away_does_not_succeed(connection: sqlite3.Connection) -> None:
    # A full disk has SQLite roll all back by itself; nx-27017 goes on with the next document.
    handler = Handler(connection, ["INSERT INTO log VALUES (1)", "ROLLBACK"])
    with pytest.raises(NotCommittedError, match="Send the command again"):
        handler.handle(INSERT)
    assert stored(connection) == []


def test_command_that_only_reads_opens_no_transaction(connection: sqlite3.Connection) -> None:
    handler = Handler(connection, ["SELECT 1"])
    handler.handle({"sections": [("body", {"find": "log", "$db": "cron"})]})
    assert handler.was_together == [False]


@pytest.mark.parametrize("document", [{"a": 1}, {"_id": "x", "a": b"bytes"}])
def test_document_that_is_not_plain_goes_the_usual_way(document: dict[str, Any]) -> None:
    usual: list[Any] = []
    insert = inserted_plainly(lambda _, one: usual.append(one), json.dumps, str)
    insert(None, document)
    assert usual == [document]


def test_plain_document_is_stored_as_it_is(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE plain (data TEXT, _id TEXT UNIQUE)")
    helper = SimpleNamespace(collection=SimpleNamespace(name="plain", db=connection))
    insert = inserted_plainly(lambda *_: pytest.fail("the usual way"), json.dumps, str)
    assert insert(helper, {"_id": "x", "a": 1}) == "x"
    assert connection.execute("SELECT data, _id FROM plain").fetchall() == [('{"_id": "x", "a": 1}', "x")]
    with pytest.raises(sqlite3.IntegrityError):
        insert(helper, {"_id": "x", "a": 2})
