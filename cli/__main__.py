"""The command line: `etcron VERB ...`. Exit status: see cli.errors.ExitStatus.

Each group of commands is loaded only when it is called, so that `etcron cron next` does not wait for what `etcron up`
needs.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from cli.errors import CommandError, ExitStatus

_GROUPS: Final = {
    "job": "cli.job_commands",
    "run": "cli.run_commands",
    "stats": "cli.stats_command",
    "cron": "cli.cron_commands",
    "crontab": "cli.crontab.commands",
}
WORKER_COMMANDS: Final = ("list", "drain", "undrain")
"""After `etcron worker` these ask a manager; anything else starts a worker."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A job's name or output may have what this terminal's encoding has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    if verb in _GROUPS:
        return _guarded(lambda: _group(_GROUPS[verb], rest))
    if verb == "worker" and rest and rest[0] in WORKER_COMMANDS:
        return _guarded(lambda: _group("cli.worker_commands", rest))
    if verb in ("manager", "worker"):
        return _program(verb, rest)
    return _guarded(lambda: _local(arguments))


def _guarded(command: Callable[[], int]) -> int:
    """The command's exit status; what it raises told on stderr."""
    try:
        status = int(command())
        sys.stdout.flush()
        return status
    except CommandError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:
        return 128 + 2
    except BrokenPipeError:
        # `| head` has seen enough; Python would complain once more when it flushes at its end.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13


def _fail(message: str, status: ExitStatus) -> int:
    print(f"etcron: {message}", file=sys.stderr)
    return status


def _group(module: str, arguments: Sequence[str]) -> int:
    """A group of commands: its module has the parser, and each command in it what to run."""
    parsed = importlib.import_module(module).parser().parse_args(arguments)
    return int(parsed.run(parsed))


def _local(arguments: Sequence[str]) -> int:
    """What is neither a client's command nor a program: `up`, `config show`, `version`, and the help of all."""
    from cli.local_commands import parser
    from common.configuration.flags import explain
    from common.errors import ConfigError

    parsed = parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except ConfigError as error:
        raise CommandError(explain(error), ExitStatus.USAGE) from error


def _program(name: str, arguments: Sequence[str]) -> int:
    """`etcron manager`, `etcron worker`: the programs have command lines of their own."""
    if name == "manager":
        from manager.__main__ import main as run_manager

        return run_manager(arguments)
    from cli.worker_command import main as run_worker

    return _guarded(lambda: run_worker(arguments))


if __name__ == "__main__":
    sys.exit(main())
