"""Where configuration comes from: a flag beats the environment, which beats the file, which beats the default.

Every mistake is collected with the place where it was made; nothing is raised at the first one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from common.configuration.keys import Key, UnfitError, show
from common.errors import ConfigError, Problem, nearest

PREFIX = "ETCRON_CONFIG_"
IGNORED_LEGACY_KEYS = ("etcdEndpointsCluster", "winBashPath")


@dataclass(slots=True)
class Gathered:
    """What the sources gave: values and their origins by key, notes for the log, and all mistakes."""

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def take(self, key: Key, given: object, origin: str, *, as_text: bool, beside: Path) -> None:
        """Keep one value (a later source overrides an earlier one), or the mistake in it; paths are from `beside`."""
        try:
            value = key.kind.read(str(given)) if as_text else key.kind.accept(given)
            self.values[key.name] = key.kind.lies_beside(value, beside)
            self.origins[key.name] = origin
        except UnfitError as unfit:
            there = f"{origin} has {_shorten(show(key, given))}"
            self.problems.append(Problem(field=key.name, message=there, remedy=f"give {unfit}"))


def gather(
    own: Mapping[str, Key],
    other: Mapping[str, Key],
    *,
    program: str,
    path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
) -> Gathered:
    """Values from all sources for one program; `other` are the keys that only the other program has."""
    gathered = Gathered()
    if path is not None:
        _gather_file(gathered, own, other, program=program, path=path)
    _gather_environment(gathered, own, other, environ)
    for name, given in flags.items():
        gathered.take(own[name], given, f"flag {own[name].flag}", as_text=isinstance(given, str), beside=Path())
    return gathered


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in a file; ConfigError says what is wrong with the file itself."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_duplicates)
    except OSError as error:
        raise _file_error(path, f"cannot be read ({error.strerror})", "name a file that can be read") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise _file_error(path, f"is not JSON ({where})", "mend it there") from None
    except UnicodeDecodeError:
        raise _file_error(path, "is not UTF-8 text", "save it as UTF-8") from None
    except UnfitError as twice:
        raise _file_error(path, f"has the key {twice} twice", "keep one of them") from None
    if not isinstance(found, dict):
        raise _file_error(path, "is JSON, but not an object", 'write {"apiPort": 8070} and the like')
    return found


def _gather_file(
    gathered: Gathered, own: Mapping[str, Key], other: Mapping[str, Key], *, program: str, path: Path
) -> None:
    try:
        found = read_object(path)
    except ConfigError as error:
        gathered.problems.extend(error.problems)
        return
    for name, given in found.items():
        if name in own:
            if given is not None:  # null: as if it were left out
                gathered.take(own[name], given, f"file {path}", as_text=False, beside=path.parent)
        elif name in IGNORED_LEGACY_KEYS:
            gathered.notes.append(f"{path}: {name} does nothing in etcron; it can be taken out")
        elif name in other and other[name].legacy:
            gathered.notes.append(f"{path}: {name} does nothing in a {program}")
        elif name in other:
            message = f"file {path} has it, but it is not a key of a {program}"
            remedy = "move it to the other program's file"
            gathered.problems.append(Problem(field=name, message=message, remedy=remedy))
        else:
            message, remedy = f"file {path} has this unknown key", _did_you_mean(name, own)
            gathered.problems.append(Problem(field=_shorten(name), message=message, remedy=remedy))


def _gather_environment(
    gathered: Gathered, own: Mapping[str, Key], other: Mapping[str, Key], environ: Mapping[str, str]
) -> None:
    by_variable = {key.variable: key for key in own.values()}
    elsewhere = {key.variable for key in other.values()} | {PREFIX + name.upper() for name in IGNORED_LEGACY_KEYS}
    for variable, text in sorted(environ.items()):
        if variable in by_variable:
            gathered.take(by_variable[variable], text, f"environment {variable}", as_text=True, beside=Path())
        elif variable.startswith(PREFIX) and variable not in elsewhere:
            remedy = _did_you_mean(variable, [*by_variable, *elsewhere])
            gathered.problems.append(Problem(field=variable, message="no key of that name", remedy=remedy))


def _did_you_mean(name: str, known: Collection[str]) -> str:
    guess = nearest(name, known)
    return f"did you mean {guess}?" if guess else "take it out; docs/reference/configuration.md has the list of keys"


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UnfitError(name)
    return dict(pairs)


def _file_error(path: Path, message: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(field=str(path), message=message, remedy=remedy)])


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "..."
