"""Passwords: which are taken, how they are kept, and whether one is right. Never on the event loop, two at a time.

argon2id in the parameters that OWASP names (19 MiB, two passes, one lane), some 25 ms of a processor. A name that there
is not takes as long as one that there is: its password is compared with the hash of nothing.

Of a password that was right since the process began, 12 bits of a keyed digest stay in memory. So in a flood of wrong
ones a right one is recognised at once (and of 4,096 wrong ones one), and compared before those that wait. They decide
which login waits, never which succeeds.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

from common.errors import Problem, UnavailableError

SHORTEST: Final = 8
LONGEST: Final = 256
COMMON: Final = 10_000
"""So many of the most used passwords are refused."""
_MEMORY_KIB: Final = 19 * 1024
_AT_ONCE: Final = 2
_PRIORITY: Final = 10
_MOST_WAITING: Final = 200
_MOST_SEEN: Final = 20_000
_SEEN_BITS: Final = 12
_T = TypeVar("_T")


class TooManyLoginsError(UnavailableError):
    """Too many passwords are being checked at this moment. Try again in some seconds."""


class Passwords:
    """Hashes passwords and compares them, beside the event loop."""

    def __init__(self, *, memory_kib: int = _MEMORY_KIB, most_waiting: int = _MOST_WAITING) -> None:
        self._hasher = argon2.PasswordHasher(time_cost=2, memory_cost=memory_kib, parallelism=1)
        self._threads = ThreadPoolExecutor(_AT_ONCE, "passwords", _give_way)
        self._most_waiting = most_waiting
        self._waiting = 0
        self._common: frozenset[str] | None = None
        self._dummy: str | None = None
        self._key = secrets.token_bytes(32)
        self._seen: OrderedDict[str, int] = OrderedDict()
        """By hash."""

    async def hash(self, password: str) -> str:
        """What is kept of it. TooManyLoginsError."""
        kept = await self._beside(lambda: self._hasher.hash(_bytes(password)))
        self._saw(kept, password)
        return kept

    async def is_right(self, kept: str | None, password: str) -> bool:
        """Whether it is the password that ``kept`` is of; with None False, after the same time. TooManyLoginsError."""
        is_right = await self._beside(lambda: self._compare(kept, password))
        if kept is not None and is_right:
            self._saw(kept, password)
        return is_right

    def seems_right(self, kept: str | None, password: str) -> bool:
        """Whether it is like one that was right before, here. It costs the same for any name and any password."""
        return self._seen.get(kept or "") == self._bits(kept or "", password)

    async def problem(self, password: str, *, field: str) -> Problem | None:
        """Why no user may have this password; None: they may. The text does not repeat it. TooManyLoginsError."""
        if not SHORTEST <= len(_normal(password)) <= LONGEST:
            return Problem(
                field=field, message=f"has {len(_normal(password)):,} characters",
                remedy=f"take {SHORTEST} to {LONGEST}; three words in a row are easy to remember",
            )  # fmt: skip
        if _normal(password).lower() in await self._most_used():
            return Problem(
                field=field, message=f"is one of the {COMMON:,} most used passwords, which are tried first",
                remedy="take another one",
            )  # fmt: skip
        return None

    def is_dated(self, kept: str) -> bool:
        """Whether it was hashed with other parameters than now: the next login hashes it anew."""
        try:
            return self._hasher.check_needs_rehash(kept)
        except InvalidHashError:
            return True

    def _compare(self, kept: str | None, password: str) -> bool:
        if self._dummy is None:
            self._dummy = self._hasher.hash(secrets.token_urlsafe())
        try:
            self._hasher.verify(kept or self._dummy, _bytes(password))
        except (VerificationError, InvalidHashError):
            return False
        return kept is not None

    def _saw(self, kept: str, password: str) -> None:
        self._seen[kept] = self._bits(kept, password)
        self._seen.move_to_end(kept)
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def _bits(self, kept: str, password: str) -> int:
        found = hmac.digest(self._key, kept.encode() + _bytes(password), "sha256")
        return int.from_bytes(found) >> 8 * len(found) - _SEEN_BITS

    async def _most_used(self) -> frozenset[str]:
        if self._common is None:
            self._common = await self._beside(_most_used)
        return self._common

    async def _beside(self, work: Callable[[], _T]) -> _T:
        if self._waiting >= self._most_waiting:
            raise TooManyLoginsError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1


def _give_way() -> None:
    """On Linux a thread has a priority of its own: a flood of logins leaves the processor to the loop."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PRIORITY)


def _normal(password: str) -> str:
    """Keyboards spell the same letter in different ways."""
    return unicodedata.normalize("NFC", password)


def _bytes(password: str) -> bytes:
    return _normal(password).encode(errors="surrogatepass")


def _most_used() -> frozenset[str]:
    from zxcvbn.frequency_lists import FREQUENCY_LISTS  # some MB, that most managers never need

    return frozenset(word for word in FREQUENCY_LISTS["passwords"][:COMMON] if len(word) >= SHORTEST)
