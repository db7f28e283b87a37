"""The name of a job that comes from a crontab: readable, and the same at each import. Pure.

The command (with its user) decides it, so an entry whose time is changed stays the same job; `etcron crontab sync`
calls it by the comment above it, where there is one. Equal names get a number, in the order of the
lines.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from common.crontab.command_text import parse_command

_LONGEST_WORDS: Final = 40
_HASH_DIGITS: Final = 6
_REDIRECTION: Final = re.compile(r"(?<![0-9])[0-9]*(?:>>?|<)\s*(?:&[0-9-]|\S+)|&>\s*\S+")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAMES_NOTHING: Final = frozenset({
    "cd", "test", "sh", "bash", "dash", "env", "sudo", "nice", "ionice", "exec", "nohup", "command", "root", "timeout",
    "flock", "chronic", "if", "then", "fi", "and", "or", "usr", "bin",
})  # fmt: skip


class Names:
    """Gives each entry of one crontab its name."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._given: Counter[str] = Counter()

    def of(self, command: str, user: str | None, comment: str = "") -> str:
        """The next name for this command; its second entry gets another one than its first."""
        digits = hashlib.sha256(f"{user or ''}\0{command}".encode(errors="surrogateescape")).hexdigest()[:_HASH_DIGITS]
        from_comment = _joined(_NOT_IN_NAMES.sub("-", word).strip("-._") for word in comment.lower().split())
        name = self._prefix + (from_comment or f"{_words(parse_command(command).line)}-{digits}")
        self._given[name] += 1
        number = self._given[name]
        return name if number == 1 else f"{name}-{number}"


def _words(command: str) -> str:
    """What the command is about: the last parts of its paths, without options, redirections and assignments."""
    found = []
    for word in _REDIRECTION.sub(" ", command).split():
        plain = _NOT_IN_NAMES.sub("-", word.strip("\"'();&|{}[]").rstrip("/").rpartition("/")[2]).strip("-._")
        if plain and not word.startswith("-") and "=" not in word and plain.lower() not in _NAMES_NOTHING:
            found.append(plain)
    return _joined(found) or "cron"


def _joined(words: Iterable[str]) -> str:
    """As many of the first words as a name may have."""
    text = ""
    for word in filter(None, words):
        longer = f"{text}-{word}" if text else word
        if text and len(longer) > _LONGEST_WORDS:
            break
        text = longer
    return text[:_LONGEST_WORDS].strip("-._")
