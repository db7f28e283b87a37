"""The configuration on a command line: `--config FILE` and one flag for each key, the same for both programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from common.configuration.config import (
    ManagerConfig,
    Program,
    WorkerConfig,
    keys_of,
    load_manager_config,
    load_worker_config,
)
from common.errors import ConfigError

CONFIG_GROUP: Final = "keys of the configuration"
"""What the flags stand under in a help."""
_UNSET = object()


def add_config_arguments(parser: argparse.ArgumentParser, program: Program) -> None:
    """Add `--config` (also `-config`, as the legacy API spells it) and a flag for every key of the program."""
    parser.allow_abbrev = False
    parser.add_argument(
        "--config",
        "-config",
        type=Path,
        metavar="FILE",
        help=f"JSON file (default: ./{program}.json where there is one)",
    )
    group = parser.add_argument_group(CONFIG_GROUP, "each beats its environment variable and the file")
    for key in keys_of(program).values():
        if not key.flagless:
            group.add_argument(key.flag, dest=_destination(key.name), metavar="VALUE", default=_UNSET, help=key.help)


def config_flags(arguments: argparse.Namespace, program: Program) -> dict[str, object]:
    """The keys that were given as flags, with their texts: the `flags` of `load_*_config`."""
    given = {name: getattr(arguments, _destination(name), _UNSET) for name in keys_of(program)}
    return {name: text for name, text in given.items() if text is not _UNSET}


def config_path(arguments: argparse.Namespace, program: Program) -> Path | None:
    """The file named by `--config`, else `./manager.json` or `./worker.json` where there is one, else None."""
    named: Path | None = arguments.config
    usual = Path(f"{program}.json")
    return named if named is not None else usual if usual.is_file() else None


def manager_config_from(arguments: argparse.Namespace) -> ManagerConfig:
    """The configuration of a manager from its parsed command line; raises ConfigError."""
    return load_manager_config(config_path(arguments, "manager"), None, config_flags(arguments, "manager"))


def worker_config_from(arguments: argparse.Namespace) -> WorkerConfig:
    """The configuration of a worker from its parsed command line; raises ConfigError."""
    return load_worker_config(config_path(arguments, "worker"), None, config_flags(arguments, "worker"))


def explain(error: ConfigError) -> str:
    """The mistakes for people, one a line."""
    lines = [f"  {problem}" for problem in error.problems]
    return "\n".join(["The configuration is not valid; nothing was started:", *lines])


def _destination(name: str) -> str:
    return f"config_{name}"
