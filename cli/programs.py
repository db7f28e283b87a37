"""`etcron up`, `start`, `config show`, `completion`, `version`, and the help that lists every command."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cli.arguments import EXIT_STATUSES, Parser, count
from cli.completion import SCRIPTS
from cli.errors import CommandError, ExitStatus
from common.configuration.config import Program, shown
from common.configuration.flags import add_config_arguments, manager_config_from, worker_config_from
from common.errors import ConfigError
from common.version import VERSION

_VERSION: Final = f"etcron {VERSION}"
_ELSEWHERE: Final = (
    ("worker", "list, drain, undrain, forget workers (etcron worker --help)"),
    ("job", "save, list, show, run, kill, apply ... jobs (etcron job --help)"),
    ("run", "show, list, kill runs and read their output (etcron run --help)"),
    ("stats", "how many runs of each verdict each day had, and how long they took (etcron stats --help)"),
    ("forecast", "slots that the next day wants, and its fullest minutes (etcron forecast --help)"),
    ("admin", "the first administrator, and the last resort; on a manager's host (etcron admin --help)"),
    ("audit", "who did what, and whether what is kept of it holds together (etcron audit --help)"),
    ("cron", "explain a cron expression, and list its fires; offline (etcron cron --help)"),
    ("crontab", "import a crontab, or keep it and its jobs alike (etcron crontab --help)"),
    ("import", "jobs from Kubernetes, systemd timers, dkron, Cronicle, cronsun (etcron import --help)"),
    ("login", "log in at a manager; what lets you in is kept (etcron login --help)"),
    ("logout", "log out (etcron logout --help)"),
    ("whoami", "who you are to a manager, and what you may do (etcron whoami --help)"),
    ("user", "add, list, show, change, remove users (etcron user --help)"),
    ("service", "add, list, remove service accounts (etcron service --help)"),
    ("token", "make, list, revoke tokens (etcron token --help)"),
    ("session", "list and end sessions (etcron session --help)"),
    ("binding", "who has which role on what: add, list, remove (etcron binding --help)"),
    ("access", "what may a user do, and who may touch a job? (etcron access --help)"),
    ("channel", "places that messages go to: add, test, list, remove (etcron channel --help)"),
    ("rule", "which events of which jobs go where: add, list, remove (etcron rule --help)"),
    ("silence", "keep messages back for a while: add, list, end (etcron silence --help)"),
    ("alert", "problems that are open: list, acknowledge (etcron alert --help)"),
    ("notice", "messages sent, and those that failed: list, resend (etcron notice --help)"),
    ("signing", "keys that jobs are signed with, on a manager's host (etcron signing --help)"),
)
"""What is loaded by itself; here it is only listed."""
_STARTED: Final = {
    "manager": "serves the HTTP API and the pages",
    "worker": "runs the commands of jobs",
    "notifier": "makes messages and sends them, with the configuration of a manager; serves nothing",
}
"""What `etcron start` starts, and what it does."""
_EXAMPLES: Final = """\
examples:
  etcron up --example                                   everything on this machine, with a few jobs
  etcron job save hello --command 'echo hi' --cron '0 * * * * * *'
  etcron job run hello --wait
  etcron cron next '*/15 9-17 * * 1-5' --tz Europe/Berlin

"""
_INSTALLING: Final = """\
to install it, once:
  etcron completion bash >> ~/.bashrc
  etcron completion zsh >> ~/.zshrc
  mkdir -p ~/.config/fish/completions && etcron completion fish > ~/.config/fish/completions/etcron.fish
"""


def parser() -> Parser:
    """The command line but for the groups and programs that are loaded by themselves."""
    top = Parser(prog="etcron", description="A distributed cron.", epilog=_EXAMPLES + EXIT_STATUSES)
    top.add_argument("--version", action="version", version=_VERSION, help="print the version")
    verbs = top.add_subparsers(required=True, metavar="VERB")
    _add_up(verbs.add_parser("up", help="start everything on this machine"))
    _add_start(verbs)
    _add_backup(verbs)
    for name, does in _ELSEWHERE:
        verbs.add_parser(name, help=does, add_help=False)
    config = verbs.add_parser("config", help="look at the configuration").add_subparsers(required=True, metavar="VERB")
    show = config.add_parser("show", help="every key with its value and where it comes from (manager, worker or both)")
    show.set_defaults(run=_show_both)
    programs = show.add_subparsers(metavar="PROGRAM")
    _add_show(programs.add_parser("manager", help="as a manager would see it"), "manager")
    _add_show(programs.add_parser("worker", help="as a worker would see it"), "worker")
    completion = verbs.add_parser(
        "completion", help="have TAB complete commands: print the script for a shell", epilog=_INSTALLING
    )
    completion.add_argument("shell", choices=tuple(SCRIPTS))
    completion.set_defaults(run=_completion)
    verbs.add_parser("version", help="print the version").set_defaults(run=_version)
    return top


def _add_up(parser: argparse.ArgumentParser) -> None:
    home = Path(os.path.expanduser("~/.local/share/etcron"))
    add = parser.add_argument
    add("--data-dir", type=Path, default=home, metavar="DIR", help="where everything is kept (~/.local/share/etcron)")
    add("--port", type=count(0, 65_535), metavar="PORT", help="port of the manager (8070)")
    add("--workers", type=count(1, 64), default=1, metavar="N", help="how many workers (1)")
    add("--example", action="store_true", help="save a few jobs where there are none")
    add("--production", action="store_true", help="for good: refuse what is only fit for trying etcron")
    add("--manager-config", type=Path, metavar="FILE", help="configuration of the manager")
    add("--worker-config", type=Path, metavar="FILE", help="configuration of the workers")
    add("--etcd-endpoints", metavar="HOST:PORT,...", help="an etcd that runs already (else one is started)")
    add(
        "--no-fetch-etcd",
        action="store_false",
        dest="fetch_etcd",
        help="start the etcd of the PATH or of the extra `embedded`, not one fetched from Debian",
    )
    add("--mongodb-uri", metavar="URI", help="a log store that runs already (else one is started)")
    parser.set_defaults(run=_up)


def _add_start(verbs: Any) -> None:
    """`etcron start`: each program has a command line of its own."""
    does = "start a manager, a worker or a notifier"
    starting = verbs.add_parser("start", help=f"{does} (etcron start PROGRAM --help)", description=f"{does}.")
    programs = starting.add_subparsers(required=True, metavar="PROGRAM")
    for name, what in _STARTED.items():
        programs.add_parser(name, help=what, add_help=False)


def _add_backup(verbs: Any) -> None:
    """`etcron backup` and `etcron restore`."""
    home = Path(os.path.expanduser("~/.local/share/etcron"))
    saving = verbs.add_parser("backup", help="everything of an `etcron up` into one file, also while it runs")
    saving.add_argument("file", metavar="FILE", help="to be made, e.g. etcron.tar.gz; readable by you alone")
    bringing = verbs.add_parser("restore", help="a data directory for `etcron up` out of such a file")
    bringing.add_argument("file", metavar="FILE", help="that `etcron backup` has made")
    for command, run, what in ((saving, _backup, "of the `etcron up`"), (bringing, _restore, "to be made")):
        command.add_argument(
            "--data-dir",
            type=Path,
            default=home,
            metavar="DIR",
            help=f"the directory {what} (~/.local/share/etcron)",
        )
        command.set_defaults(run=run)


def _backup(arguments: argparse.Namespace) -> int:
    from cli.processes.backup import backup

    return backup(arguments)


def _restore(arguments: argparse.Namespace) -> int:
    from cli.processes.backup import restore

    return restore(arguments)


def _up(arguments: argparse.Namespace) -> int:
    from cli.processes.plan import Options
    from cli.processes.up import up
    from common.process.lifecycle import run
    from common.process.logs import configure_logging

    configure_logging("warning")
    return run(up(Options.of(arguments)), passed_on=(CommandError, ConfigError))


def _add_show(parser: argparse.ArgumentParser, program: Program) -> None:
    add_config_arguments(parser, program)
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output", help="how to print it")
    parser.set_defaults(run=_show, program=program)


def _show_both(_: argparse.Namespace) -> int:
    for program in ("manager", "worker"):
        print(f"{program}:")
        shown_one = parser().parse_args(["config", "show", program])
        shown_one.run(shown_one)
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
    print(_VERSION)
    return ExitStatus.OK


def _completion(arguments: argparse.Namespace) -> int:
    print(SCRIPTS[arguments.shell], end="")
    return ExitStatus.OK


def program_parser(program: Program, *, name: str | None = None, does: str | None = None) -> Parser:
    """The command line of a program: its configuration."""
    parser = Parser(prog=f"etcron start {name or program}", description=does)
    add_config_arguments(parser, program)
    return parser


def run_manager(arguments: Sequence[str], *, serves: bool) -> int:
    """A manager, or a notifier, which does not serve, until it is to stop; its exit status."""
    from manager.__main__ import main

    name = "manager" if serves else "notifier"
    program_parser("manager", name=name, does=f"{_STARTED[name].capitalize()}.").parse_args(arguments)
    return main(arguments, serves=serves)


def run_worker(arguments: Sequence[str]) -> int:
    """One worker in this process, or several kept by this one, until it is to stop; the exit status, as a worker's.

    Loads nothing more than the one needs. ConfigError.
    """
    parsed = program_parser("worker", does=f"{_STARTED['worker'].capitalize()}.").parse_args(arguments)
    config = worker_config_from(parsed)
    if config.processes > 1:
        from cli.processes.worker import run_processes

        return run_processes(config)
    if os.path.isdir(config.data_dir / "processes"):
        from cli.processes.worker import say_what_is_left_to_one

        say_what_is_left_to_one(config)
    from worker.__main__ import main

    return main(arguments)
