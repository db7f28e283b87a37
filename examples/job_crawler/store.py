"""What the crawler knows, in one SQLite file: who looks for what, which postings there are, which mails are due.

    crawl.py    --postings, matches, mails-->  store  --mails-->               send_mail.py
    service.py  --users-->                            --tasks, statistics-->   service.py

A posting that fits what a user looks for is a *match*. It goes into exactly one *mail*: both are written in the
transaction that notes the posting, so a crawl that dies half way has told of nothing, or of everything.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

STATES: Final = ("running", "success", "error")
MOST_IN_A_MAIL: Final = 50
"""What else fits is in the next mail."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS users (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, company TEXT NOT NULL,
    words TEXT NOT NULL, location TEXT NOT NULL, created_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS postings (
    id INTEGER PRIMARY KEY, company TEXT NOT NULL, number TEXT NOT NULL, title TEXT NOT NULL, location TEXT NOT NULL,
    url TEXT NOT NULL, description TEXT NOT NULL, seen_ms INTEGER NOT NULL, gone_ms INTEGER, UNIQUE (company, number));
CREATE TABLE IF NOT EXISTS mails (
    id TEXT PRIMARY KEY, user INTEGER NOT NULL, task TEXT NOT NULL, asked_ms INTEGER, sent_ms INTEGER);
CREATE TABLE IF NOT EXISTS matches (
    user INTEGER NOT NULL, posting INTEGER NOT NULL, mail TEXT NOT NULL, PRIMARY KEY (user, posting));
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY, company TEXT NOT NULL, status TEXT NOT NULL, started_ms INTEGER NOT NULL, ended_ms INTEGER,
    found INTEGER NOT NULL DEFAULT 0, new INTEGER NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS mails_due ON mails (asked_ms);
CREATE INDEX IF NOT EXISTS matches_of_mail ON matches (mail);
CREATE INDEX IF NOT EXISTS tasks_by_start ON tasks (started_ms);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """A posting as the board shows it."""

    number: str
    """The board's own, unique for a company."""
    title: str
    location: str
    url: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """One message to one user."""

    id: str
    name: str
    email: str
    postings: tuple[Mapping[str, Any], ...]
    is_sent: bool


class Store:
    """The file. Each process opens it for itself; SQLite has them wait for each other, for ten seconds at most."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, timeout=10, isolation_level=None)
        self._file.row_factory = sqlite3.Row
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.executescript(_TABLES)

    def close(self) -> None:
        """The file is no longer open here."""
        self._file.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """All of it, or nothing."""
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    def register(self, *, name: str, email: str, company: str, words: str, location: str) -> int:
        """The user's number. Who registers again changes what they look for."""
        values = (name, email, company, words, location, _now_ms())
        with self._changing():
            self._file.execute(
                "INSERT INTO users (name, email, company, words, location, created_ms) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (email) DO UPDATE SET name = excluded.name, company = excluded.company, "
                "words = excluded.words, location = excluded.location",
                values,
            )
            return int(self._file.execute("SELECT id FROM users WHERE email = ?", (email,)).fetchone()["id"])

    def known(self, company: str) -> set[str]:
        """The numbers of the company's postings that were seen."""
        rows = self._file.execute("SELECT number FROM postings WHERE company = ?", (company,))
        return {row["number"] for row in rows}

    def begin(self, task: str, company: str) -> None:
        """A crawl has begun, or begins again."""
        self._file.execute(
            "INSERT INTO tasks (id, company, status, started_ms) VALUES (?, ?, 'running', ?) "
            "ON CONFLICT (id) DO UPDATE SET status = 'running', started_ms = excluded.started_ms, message = ''",
            (task, company, _now_ms()),
        )

    def fail(self, task: str, message: str) -> None:
        """A crawl has failed; what it saw is forgotten."""
        self._file.execute(
            "UPDATE tasks SET status = 'error', ended_ms = ?, message = ? WHERE id = ?",
            (_now_ms(), message[:500], task),
        )

    def finish(self, task: str, company: str, there: Iterable[str], new: Iterable[Posting]) -> int:
        """The crawl's whole result: new postings, those that are gone, and a mail to each user whom one fits.

        ``there``: the numbers of all postings that the board has. Gives how many mails.
        """
        there, new, now_ms = set(there), list(new), _now_ms()
        with self._changing():
            self._file.executemany(
                "INSERT OR IGNORE INTO postings (company, number, title, location, url, description, seen_ms) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(company, one.number, one.title, one.location, one.url, one.description, now_ms) for one in new],
            )
            gone = [(now_ms, company, number) for number in self.known(company) - there]
            self._file.executemany(
                "UPDATE postings SET gone_ms = ? WHERE company = ? AND number = ? AND gone_ms IS NULL", gone
            )
            mails = sum(self._match(task, company, user) for user in self._file.execute("SELECT * FROM users"))
            self._file.execute(
                "UPDATE tasks SET status = 'success', ended_ms = ?, found = ?, new = ? WHERE id = ?",
                (now_ms, len(there), len(new), task),
            )
        return mails

    def _match(self, task: str, company: str, user: sqlite3.Row) -> int:
        """What fits the user and was not told yet goes into mails; how many."""
        if user["company"] not in ("", company):
            return 0
        untold = self._file.execute(
            "SELECT * FROM postings WHERE company = ? AND gone_ms IS NULL "
            "AND NOT EXISTS (SELECT 1 FROM matches WHERE user = ? AND posting = postings.id) ORDER BY id",
            (company, user["id"]),
        )
        fitting = [posting["id"] for posting in untold if _fits(user, posting)]
        for start in range(0, len(fitting), MOST_IN_A_MAIL):
            mail = secrets.token_hex(8)  # no mail of a former database has it: etcron and the mail server keep them
            self._file.execute("INSERT INTO mails (id, user, task) VALUES (?, ?, ?)", (mail, user["id"], task))
            self._file.executemany(
                "INSERT INTO matches (user, posting, mail) VALUES (?, ?, ?)",
                [(user["id"], one, mail) for one in fitting[start : start + MOST_IN_A_MAIL]],
            )
        return -(-len(fitting) // MOST_IN_A_MAIL)

    def unasked(self, limit: int = 1000) -> list[str]:
        """The mails that etcron was not asked to send yet, by this crawl or by one that died."""
        rows = self._file.execute("SELECT id FROM mails WHERE asked_ms IS NULL ORDER BY rowid LIMIT ?", (limit,))
        return [row["id"] for row in rows]

    def asked(self, mail: str) -> None:
        """etcron has the mail in its queue."""
        self._file.execute("UPDATE mails SET asked_ms = ? WHERE id = ?", (_now_ms(), mail))

    def mail(self, number: str) -> Mail | None:
        """The mail with what it tells of; None: there is none with this number."""
        row = self._file.execute(
            "SELECT mails.id, mails.sent_ms, users.name, users.email FROM mails JOIN users ON users.id = mails.user "
            "WHERE mails.id = ?",
            (number,),
        ).fetchone()
        if row is None:
            return None
        postings = self._file.execute(
            "SELECT postings.* FROM matches JOIN postings ON postings.id = matches.posting WHERE matches.mail = ? "
            "ORDER BY postings.id",
            (number,),
        )
        return Mail(
            id=row["id"], name=row["name"], email=row["email"], postings=tuple(map(dict, postings)),
            is_sent=row["sent_ms"] is not None,
        )  # fmt: skip

    def sent(self, number: str) -> None:
        """The mail server has taken it."""
        self._file.execute("UPDATE mails SET sent_ms = ? WHERE id = ? AND sent_ms IS NULL", (_now_ms(), number))

    def tasks(self, *, status: str = "", company: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """The newest crawls first."""
        rows = self._file.execute(
            "SELECT * FROM tasks WHERE (? = '' OR status = ?) AND (? = '' OR company = ?) "
            "ORDER BY started_ms DESC LIMIT ?",
            (status, status, company, company, limit),
        )
        return [dict(row) for row in rows]

    def task(self, number: str) -> dict[str, Any] | None:
        """One crawl."""
        row = self._file.execute("SELECT * FROM tasks WHERE id = ?", (number,)).fetchone()
        return None if row is None else dict(row)

    def change_task(self, number: str, *, status: str, message: str) -> bool:
        """Says what became of a crawl; False: there is none."""
        ended_ms = None if status == "running" else _now_ms()
        changed = self._file.execute(
            "UPDATE tasks SET status = ?, message = ?, ended_ms = ? WHERE id = ?", (status, message, ended_ms, number)
        )
        return changed.rowcount == 1

    def statistics(self) -> dict[str, Any]:
        """Crawls by company and by hour (the newest 24), and how many users, postings and mails there are."""
        companies = self._file.execute(
            "SELECT company, SUM(status = 'success') AS success, SUM(status = 'error') AS error, "
            "SUM(status = 'running') AS running, AVG(ended_ms - started_ms) AS average_ms FROM tasks "
            "GROUP BY company ORDER BY company"
        )
        hours = self._file.execute(
            "SELECT started_ms / 3600000 AS hour, SUM(status = 'success') AS success, SUM(status = 'error') AS error, "
            "SUM(new) AS new FROM tasks GROUP BY hour ORDER BY hour DESC LIMIT 24"
        )
        totals = self._file.execute(
            "SELECT (SELECT COUNT(*) FROM users) AS users, "
            "(SELECT COUNT(*) FROM postings WHERE gone_ms IS NULL) AS open, "
            "(SELECT COUNT(*) FROM mails WHERE sent_ms IS NOT NULL) AS sent, "
            "(SELECT COUNT(*) FROM mails WHERE sent_ms IS NULL) AS waiting"
        ).fetchone()
        return {
            "companies": [dict(row) for row in companies],
            "hours": [dict(row) for row in hours][::-1],
            "totals": dict(totals),
        }


def _fits(user: sqlite3.Row, posting: sqlite3.Row) -> bool:
    """Each word that the user looks for is in the title or in the description, and the place is the user's."""
    text = f"{posting['title']} {posting['description']}".casefold()
    place = user["location"].casefold()
    return place in posting["location"].casefold() and all(word in text for word in user["words"].casefold().split())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
