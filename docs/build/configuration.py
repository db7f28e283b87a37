"""``reference/configuration.md``: every key of a manager and of a worker, from the tables that read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from common.configuration.keys import Key, UnfitError
from common.configuration.tables import ManagerConfig, SharedConfig, WorkerConfig

_HEAD: Final = """\
# Configuration

A manager reads `manager.json`, a worker `worker.json`. Each key can also be a variable (`ETCRON_CONFIG_APIPORT`) or a flag
(`--api-port`). A flag beats the variable, which beats the file, which beats the default; `null` in a file leaves a key out. Without
`--config`, `./manager.json` or `./worker.json` is read where there is one (not by `etcron up`, which reads only files it is given).
`etcron config show` shows every value and where it comes from.

Relative paths count from the file that names them, but those of `auditDir`, `dataDir`, `secretsDirectory`, `socket` and `webroot`, from a
file too, from the working directory, which of a service is `/`: begin these with a `/`. No secret is shown: not by `config show`, not in
logs, not by the API.
"""
_TABLE: Final = "\n| Key | Default | Takes | Meaning |\n|---|---|---|---|\n"


def page() -> str:
    """The whole of it."""
    shared = {one.name for one in fields(SharedConfig)}
    return (
        _HEAD
        + "\n## Both\n" + _TABLE + "".join(_rows(SharedConfig, set()))
        + "\n## Manager\n" + _TABLE + "".join(_rows(ManagerConfig, shared))
        + "\n## Worker\n" + _TABLE + "".join(_rows(WorkerConfig, shared))
    )  # fmt: skip


def _rows(table: type[SharedConfig], without: set[str]) -> Iterator[str]:
    for one in fields(table):
        if "key" in one.metadata and one.name not in without:
            key: Key = one.metadata["key"]
            note = "; no flag" if key.flagless else ""
            yield f"| `{key.name}` | {_default(one)} | {_takes(key)} | {key.help}{note} |\n"


def _default(one: Field[Any]) -> str:
    if one.default_factory is dict:
        return "`{}`"
    if one.default_factory is not MISSING:
        text = (one.default_factory.__doc__ or "").rstrip(".")
        return (text[0].lower() + text[1:]).replace("``", "`")
    if one.default is None:
        return "none"
    value = list(one.default) if isinstance(one.default, tuple) else one.default
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _takes(key: Key) -> str:
    """In the words of the error for what does not fit."""
    try:
        key.kind.accept(object())
    except UnfitError as error:
        return str(error)
    raise TypeError(f"{key.name} takes anything")
