"""The command line: `etcron VERB ...`. Exit status: see cli.errors.ExitStatus."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.errors import CommandError, ExitStatus
from common.config import Program, shown
from common.config_flags import add_config_arguments, explain, manager_config_from, worker_config_from
from common.errors import ConfigError
from common.version import VERSION


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in ("manager", "worker"):
        return _program(arguments[0], arguments[1:])
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except ConfigError as error:
        return _fail(explain(error), ExitStatus.USAGE)
    except CommandError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:
        return 128 + 2


def _fail(message: str, status: ExitStatus) -> int:
    print(f"etcron: {message}", file=sys.stderr)
    return status


def _program(name: str, arguments: Sequence[str]) -> int:
    """`etcron manager`, `etcron worker`: the programs have command lines of their own, and are loaded only here."""
    if name == "manager":
        from manager.__main__ import main as run_manager

        return run_manager(arguments)
    from worker.__main__ import main as run_worker

    return run_worker(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="etcron", description="A distributed cron.", allow_abbrev=False)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_up(verbs.add_parser("up", help="start everything on this machine", allow_abbrev=False))
    verbs.add_parser("manager", help="start a manager: HTTP API and pages (etcron manager --help)", add_help=False)
    verbs.add_parser("worker", help="start a worker: runs the commands (etcron worker --help)", add_help=False)
    config = verbs.add_parser("config", help="look at the configuration").add_subparsers(required=True, metavar="VERB")
    show = config.add_parser("show", help="every key with its value and where it comes from (manager, worker or both)")
    show.set_defaults(run=_show_both)
    programs = show.add_subparsers(metavar="PROGRAM")
    _add_show(programs.add_parser("manager", help="as a manager would see it"), "manager")
    _add_show(programs.add_parser("worker", help="as a worker would see it"), "worker")
    verbs.add_parser("version", help="print the version").set_defaults(run=_version)
    return parser


def _add_up(parser: argparse.ArgumentParser) -> None:
    home = Path(os.path.expanduser("~/.local/share/etcron"))
    add = parser.add_argument
    add("--data-dir", type=Path, default=home, metavar="DIR", help="where everything is kept (~/.local/share/etcron)")
    add("--port", type=int, metavar="PORT", help="port of the manager (8070)")
    add("--workers", type=_count, default=1, metavar="N", help="how many workers (1)")
    add("--example", action="store_true", help="save a few jobs where there are none")
    add("--production", action="store_true", help="refuse servers that are only fit for trying etcron")
    add("--manager-config", type=Path, metavar="FILE", help="configuration of the manager")
    add("--worker-config", type=Path, metavar="FILE", help="configuration of the workers")
    add("--etcd-endpoints", metavar="HOST:PORT,...", help="an etcd that runs already (else one is started)")
    add("--mongodb-uri", metavar="URI", help="a log store that runs already (else one is started)")
    parser.set_defaults(run=_up)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 64")
    return int(text)


def _up(arguments: argparse.Namespace) -> int:
    from cli.plan import Options
    from cli.up import up
    from common.lifecycle import run
    from common.logs import configure_logging

    configure_logging("warning")
    return run(up(Options.of(arguments)), passed_on=(CommandError, ConfigError))


def _add_show(parser: argparse.ArgumentParser, program: Program) -> None:
    add_config_arguments(parser, program)
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output", help="how to print it")
    parser.set_defaults(run=_show, program=program)


def _show_both(_: argparse.Namespace) -> int:
    for program in ("manager", "worker"):
        print(f"{program}:")
        main(["config", "show", program])
    return ExitStatus.OK


def _show(arguments: argparse.Namespace) -> int:
    config = manager_config_from(arguments) if arguments.program == "manager" else worker_config_from(arguments)
    rows = list(shown(config))
    if arguments.output == "json":
        print(
            json.dumps({name: {"value": json.loads(value), "origin": origin} for name, value, origin in rows}, indent=2)
        )
        return ExitStatus.OK
    width, wide = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, value, origin in rows:
        print(f"{name:<{width}}  {value:<{wide}}  {origin}")
    for note in config.notes:
        print(f"note: {note}")
    return ExitStatus.OK


def _version(_: argparse.Namespace) -> int:
    print(f"etcron {VERSION}")
    return ExitStatus.OK


if __name__ == "__main__":
    sys.exit(main())
