"""The command line: `etcron VERB ...`. Exit status: see cli.errors.ExitStatus.

Each group of commands is loaded only when it is called, so that `etcron cron next` does not wait for what `etcron up`
needs.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from cli.arguments import GROUPS, LOGIN_COMMANDS, PROGRAMS, with_options_behind
from cli.errors import CommandError, ExitStatus
from cli.printing import complain, say

_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    _open_standard_streams()
    try:
        arguments = with_options_behind(sys.argv[1:] if argv is None else argv)
    except CommandError as error:
        return _fail(str(error), error.status)
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A job's name or output may have what this terminal's encoding has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    if verb == "start" and rest and rest[0] in PROGRAMS:
        return _start(rest[0], rest[1:])
    if _starts_as_before(verb, rest):
        with contextlib.suppress(OSError):  # a full disk keeps nothing from starting
            say(f"deprecated: write `etcron start {verb}`; `etcron {verb}` will not start it in a later version")
        return _start(verb, rest)
    if verb in GROUPS:
        return _guarded(lambda: _group(GROUPS[verb], rest))
    if verb in LOGIN_COMMANDS:
        return _guarded(lambda: _group("cli.login", arguments))
    if verb == "__complete":
        from cli.completion import complete

        return _guarded(lambda: complete(rest))
    return _guarded(lambda: _local(arguments))


def _starts_as_before(verb: str, rest: Sequence[str]) -> bool:
    """Whether this is how a unit or a container of an earlier version starts a program.

    A user who types `etcron worker` on a terminal wants to know what it does.
    """
    if verb != "worker":
        return verb in PROGRAMS
    if not rest:
        return not sys.stdin.isatty()
    return rest[0].startswith("-") and rest[0] not in ("-h", "--help")


def _start(program: str, arguments: Sequence[str]) -> int:
    """Run a manager, notifier or worker until it is asked to stop; its exit status."""
    if program == "worker":
        return _guarded(lambda: _started_worker(arguments))
    from cli.programs import run_manager

    return run_manager(arguments, serves=program == "manager")


def _started_worker(arguments: Sequence[str]) -> int:
    from cli.programs import run_worker
    from common.configuration.flags import explain
    from common.errors import ConfigError

    try:
        return run_worker(arguments)
    except ConfigError as error:
        raise CommandError(explain(error), ExitStatus(error.exit_status)) from error


def _open_standard_streams() -> None:
    """Those that we were started without (``>&-``) take everything; nothing that is opened later gets their place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            if os.open(os.devnull, os.O_RDWR) != number:  # the lowest that is free: this very one
                continue
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _guarded(command: Callable[[], int]) -> int:
    """The command's exit status; what it raises is printed on stderr."""
    try:
        return _flushed(command)
    except CommandError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:
        return 128 + 2
    except BrokenPipeError:
        _throw_away(sys.stdout)  # `| head` has seen enough
        return 128 + 13
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        _throw_away(sys.stdout)
        message = f"stdout cannot be written: {error.strerror}; what was to be done may have been done: look first"
        return _fail(message, ExitStatus.NO)


def _flushed(command: Callable[[], int]) -> int:
    try:
        status = int(command())
    except SystemExit:
        sys.stdout.flush()  # the help
        raise
    sys.stdout.flush()
    return status


def _throw_away(stream: TextIO) -> None:
    """What is left in it, too: Python would complain once more when it flushes at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(message: str, status: ExitStatus) -> int:
    try:
        complain(message)
    except OSError:
        _throw_away(sys.stderr)
    return status


def _group(module: str, arguments: Sequence[str]) -> int:
    """A group of commands: its module has the parser, and each command in it what to run."""
    parsed = importlib.import_module(module).parser().parse_args(arguments)
    return int(parsed.run(parsed))


def _local(arguments: Sequence[str]) -> int:
    """What is no client's command: `up`, `config show`, `completion`, `version`, and the help of all."""
    from cli.programs import parser
    from common.configuration.flags import explain
    from common.errors import ConfigError

    try:
        parsed = parser().parse_args(arguments)
        return int(parsed.run(parsed))
    except ConfigError as error:
        raise CommandError(explain(error), ExitStatus(error.exit_status)) from error


if __name__ == "__main__":
    sys.exit(main())
