"""Jobs, channels and rules out of files, each with its place. One mistake anywhere, and none is handed out.

A file holds one job, a list of them, or an object with lists `jobs`, `channels`, `rules`; a YAML file may hold several
such documents.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli.errors import CommandError, ExitStatus
from common.jobs.reader import first_given_twice

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_FILE_BYTES: Final = 4 * 1024 * 1024
MAX_FILES: Final = 2_000
MAX_JOBS: Final = 20_000
KINDS: Final = {
    "jobs": "name, command, cronExpr", "channels": "name, kind and what its kind needs", "rules": "name, labels, to",
}  # fmt: skip
"""The lists that a file may hold, each with what its entries are made of."""
_SHOWN: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One job, channel or rule in a file."""

    document: dict[str, Any]
    kind: str = "jobs"
    file: str
    line: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    """Of its fields, where they are known."""
    ordinal: int = 1
    """Which one of the file it is."""

    @property
    def name(self) -> str:
        """Its name; empty where it has none that is a text."""
        name = self.document.get("name")
        return name if isinstance(name, str) else ""

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return f"{self.file}:{self.line}" if self.line else f"{self.file}, {_word(self.kind)} {self.ordinal}"

    def place_of(self, field_name: str) -> str:
        """Where a field of it stands, e.g. that of ``misfire.limit``."""
        line = self.lines.get(field_name.split(".")[0].split("[")[0])
        return f"{self.file}:{line}" if line else self.place


class _FileError(Exception):
    """A file, or a part of it, cannot be read: `place: what; remedy`."""


def read_manifests(paths: Sequence[str]) -> list[Manifest]:
    """Every job in these files and folders. CommandError with every mistake that was found."""
    mistakes: list[str] = []
    found: list[Manifest] = []
    for path in dict.fromkeys(_files(paths, mistakes)):
        try:
            found += _of_file(path)
        except _FileError as error:
            mistakes.append(str(error))
    mistakes += _nameless(found) + _twice(found)
    if len(found) > MAX_JOBS:
        mistakes.append(f"there are {len(found):,} jobs; apply at most {MAX_JOBS:,} at once")
    if mistakes:
        more = [f"... and {len(mistakes) - _SHOWN} more"] if len(mistakes) > _SHOWN else []
        raise CommandError("\n".join(["nothing was changed:", *mistakes[:_SHOWN], *more]), ExitStatus.REFUSED)
    return found


def _files(paths: Sequence[str], mistakes: list[str]) -> Iterator[str]:
    """The files, those of a folder (and below it) in the order of their names; hidden ones are passed over."""
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            yield path
            continue
        inside = sorted(_inside(path, mistakes))
        if not inside:
            mistakes.append(f"{path}: has no file that ends with {', '.join(SUFFIXES)}; name the files themselves")
        if len(inside) > MAX_FILES:
            mistakes.append(f"{path}: has {len(inside):,} files; at most {MAX_FILES:,} at once")
        yield from inside[:MAX_FILES]


def _inside(folder: str, mistakes: list[str]) -> Iterator[str]:
    """A folder below it that cannot be read is a mistake: what is in it must not count as taken away.

    So is a link to a folder, which may lead round in a circle, and one that leads to no file.
    """

    def unread(error: OSError) -> None:
        mistakes.append(f"{error.filename}: cannot be read ({error.strerror})")

    for at, folders, names in os.walk(folder, onerror=unread):
        folders[:] = [one for one in folders if not one.startswith(".")]
        mistakes += [
            f"{path}: is a link to a folder, which is not followed; put the folder itself there, or name it beside"
            " this one and take the link away"
            for path in (os.path.join(at, one) for one in folders)
            if os.path.islink(path)
        ]
        for name in names:
            path = os.path.join(at, name)
            if not name.lower().endswith(SUFFIXES) or name.startswith("."):
                continue
            if os.path.isfile(path):
                yield path
            elif os.path.islink(path):
                mistakes.append(f"{path}: is a link that leads to no file; mend it, or take it away")


def _of_file(path: str) -> list[Manifest]:
    text = _text(path)
    shown = "stdin" if path == STDIN else path
    found = [one for document in _documents(path, shown, text) for one in _entries(shown, document)]
    if not found:
        raise _FileError(f"{shown}: holds no job; write one with name, command and cronExpr")
    return [
        Manifest(
            document=dict(one), kind=kind, file=shown, ordinal=ordinal, line=getattr(one, "line", None),
            lines=getattr(one, "lines", {}),
        )
        for ordinal, (kind, one) in enumerate(found, start=1)
    ]  # fmt: skip


def _text(path: str) -> str:
    try:
        with sys.stdin.buffer if path == STDIN else open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _FileError(f"{path}: cannot be read ({error.strerror})") from error
    if len(raw) > MAX_FILE_BYTES:
        raise _FileError(f"{path}: is larger than {MAX_FILE_BYTES:,} bytes; split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _FileError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from error


def _documents(path: str, shown: str, text: str) -> Iterator[Any]:
    is_json = path.lower().endswith(".json")
    if is_json or text.lstrip()[:1] in ("{", "["):
        try:
            yield json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
            return
        except (ValueError, RecursionError) as error:
            if is_json:
                where = f"{shown}:{error.lineno}" if isinstance(error, json.JSONDecodeError) else shown
                raise _FileError(f"{where}: it is not JSON ({getattr(error, 'msg', error)})") from error
    from cli.manifests.yaml_text import YamlError, read_documents

    try:
        yield from read_documents(text)
    except YamlError as error:
        raise _FileError(f"{shown}:{error.line}: {error}" if error.line else f"{shown}: {error}") from error


def _entries(shown: str, document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is in one document, each with its kind."""
    by_kind = document if isinstance(document, dict) and document and set(document) <= KINDS.keys() else None
    for kind, held in {"jobs": document}.items() if by_kind is None else by_kind.items():
        for ordinal, one in enumerate(held if isinstance(held, list) else [held], start=1):
            if not isinstance(one, dict):
                what = type(one).__name__
                raise _FileError(
                    f"{shown}: entry {ordinal} is no {_word(kind)} ({what}); write an object with {KINDS[kind]}"
                )
            yield kind, one


def _word(kind: str) -> str:
    return kind.removesuffix("s")


def _nameless(found: Iterable[Manifest]) -> list[str]:
    return [
        f"{one.place}: name: is {'missing' if one.document.get('name') is None else 'no text'}; give the "
        f"{_word(one.kind)} a name"
        for one in found
        if not one.name
    ]


def _twice(found: Iterable[Manifest]) -> list[str]:
    first: dict[tuple[str, str], Manifest] = {}
    mistakes = []
    for one in found:
        before = first.setdefault((one.kind, one.name), one)
        if one.name and before is not one:
            mistakes.append(
                f"{one.place}: {_word(one.kind)} {one.name} is defined at {before.place}, too; take one away"
            )
    return mistakes


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # NaN, Infinity, 1e999
        raise ValueError(f"{text[:60]} is no number")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError(f"{first_given_twice(pairs)!r} is given twice")
    return document
