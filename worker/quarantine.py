"""What cannot be read, or fails in an unforeseen way, is set aside: logged once, and no harm to anything else."""

from __future__ import annotations

import logging
from collections.abc import Collection
from types import TracebackType

from common.errors import UnavailableError
from common.etcd.settle import is_in_doubt

_log = logging.getLogger(__name__)


class Quarantine:
    """The keys of one kind that are set aside, each at one revision."""

    def __init__(self, what: str) -> None:
        """``what``: the kind in a word, for the log."""
        self._what = what
        self._revisions: dict[str, int] = {}

    def add(self, key: str, revision: int, why: Exception) -> None:
        """Set the key aside, and log it once a revision."""
        if self._revisions.get(key) == revision:
            return
        self._revisions[key] = revision
        extra = {"action": f"{self._what}.set_aside", "key": key}
        trace = None if isinstance(why, ValueError) else why
        _log.warning("the %s %r is set aside: %s", self._what, key, why, extra=extra, exc_info=trace)

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget the keys that are there no more."""
        for key in [known for known in self._revisions if known not in keys]:
            del self._revisions[key]

    def isolate(self, key: str, revision: int) -> _Isolated:
        """Work on one key: its error is its own. Only etcd being away is passed on, for then all have to wait."""
        return _Isolated(self, key, revision)


class _Isolated:
    """No generator: this is entered for each fire, several times."""

    __slots__ = ("_key", "_quarantine", "_revision")

    def __init__(self, quarantine: Quarantine, key: str, revision: int) -> None:
        self._quarantine = quarantine
        self._key = key
        self._revision = revision

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, UnavailableError) or is_in_doubt(error):
            return False
        self._quarantine.add(self._key, self._revision, error)
        return True
