"""The configuration of a manager and of a worker: checked as a whole, every mistake at once, each with its origin.

    flag --api-port  >  environment ETCRON_CONFIG_APIPORT  >  manager.json "apiPort"  >  default

The two classes of `tables` are the table of keys: everything else is read off them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from common.configuration.access import access_notes, access_problems, is_loopback
from common.configuration.keys import Key, show
from common.configuration.sources import Gathered, gather
from common.configuration.tables import (
    LOG_LEVELS,
    ManagerConfig,
    SharedConfig,
    WorkerConfig,
    default_data_dir,
    default_slots,
)
from common.errors import ConfigError, Problem
from common.tls import TlsFiles

Program = Literal["manager", "worker"]

__all__ = [
    "LOG_LEVELS",
    "ManagerConfig",
    "Program",
    "SharedConfig",
    "WorkerConfig",
    "default_data_dir",
    "default_slots",
    "file_object",
    "keys_of",
    "load_manager_config",
    "load_worker_config",
    "shown",
]


def keys_of(program: Program) -> dict[str, Key]:
    """The keys of a program, by name, in their order."""
    table = ManagerConfig if program == "manager" else WorkerConfig
    return {key.name: key for _, key in _keyed_fields(table)}


def load_manager_config(
    path: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> ManagerConfig:
    """The checked configuration of a manager, or a ConfigError with every mistake.

    `path` None: no file. `environ` None: the process's own. `flags`: key name -> text as given on the command line,
    or a value as in JSON.
    """
    gathered = _gather("manager", path, environ, flags)
    config = ManagerConfig(**_arguments(ManagerConfig, gathered))
    beyond = not is_loopback(config.host.strip("[]"))
    if beyond and not config.allow_unauthenticated:
        gathered.problems.append(_unauthenticated(config))
    _refuse(config, gathered)
    if beyond:
        gathered.notes.append(
            f"listening on {config.host} without login: whoever reaches port {config.api_port} can run any command on "
            "every worker"
        )
    return replace(config, notes=tuple(gathered.notes))


def load_worker_config(
    path: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> WorkerConfig:
    """The checked configuration of a worker, or a ConfigError with every mistake; parameters as for a manager."""
    gathered = _gather("worker", path, environ, flags)
    config = WorkerConfig(**_arguments(WorkerConfig, gathered))
    _refuse(config, gathered)
    return replace(config, notes=tuple(gathered.notes))


def shown(config: SharedConfig) -> Iterator[tuple[str, str, str]]:
    """(key, value as JSON without secrets, origin) of every key."""
    for attribute, key in _keyed_fields(type(config)):
        yield key.name, show(key, getattr(config, attribute)), config.origins.get(key.name, "default")


def file_object(config: SharedConfig) -> dict[str, object]:
    """The configuration as the JSON object of a file that gives it again (secrets included)."""
    values = {key.name: getattr(config, attribute) for attribute, key in _keyed_fields(type(config))}
    plain = {name: _plain(value) for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: object) -> object:
    """As JSON takes it."""
    if isinstance(value, TlsFiles):
        return value.to_json()
    return str(value) if isinstance(value, Path) else value


def _keyed_fields(table: type[SharedConfig]) -> list[tuple[str, Key]]:
    return [(spec.name, spec.metadata["key"]) for spec in fields(table) if "key" in spec.metadata]


def _gather(
    program: Program, path: Path | None, environ: Mapping[str, str] | None, flags: Mapping[str, object] | None
) -> Gathered:
    own = keys_of(program)
    other = keys_of("worker" if program == "manager" else "manager")
    return gather(
        own,
        {name: key for name, key in other.items() if name not in own},
        program=program,
        path=path,
        environ=os.environ if environ is None else environ,
        flags=flags or {},
    )


def _arguments(table: type[SharedConfig], gathered: Gathered) -> dict[str, Any]:
    values = {name: gathered.values[key.name] for name, key in _keyed_fields(table) if key.name in gathered.values}
    return {**values, "origins": gathered.origins}


def _refuse(config: SharedConfig, gathered: Gathered) -> None:
    """Raise what was gathered together with what does not fit each other (defaults stand in for bad values)."""
    unfit = {problem.field for problem in gathered.problems}
    misfits = [*config.timings.problems(), *access_problems(config)]
    # Of a key whose value is none already, the default is all that could be told, which nobody has written.
    if problems := gathered.problems + [problem for problem in misfits if problem.field not in unfit]:
        raise ConfigError(problems)
    gathered.notes.extend(access_notes(config))


def _unauthenticated(config: ManagerConfig) -> Problem:
    return Problem(
        field="host",
        message=f'{config.origins.get("host", "default")} has "{config.host}", beyond this machine, without a login',
        remedy='give 127.0.0.1, or set "allowUnauthenticated": true if everyone who reaches it may run commands',
    )
