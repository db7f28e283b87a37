"""What the commands' own command lines have in common: their parser, and the options that many of them take."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from cli.errors import CommandError, ExitStatus
from cli.printing import one_line

Run = Callable[[argparse.Namespace], int]
"""What a command does with its parsed arguments; its exit status."""

EXIT_STATUSES: Final = (
    "exit status: 0 ok, 1 the command's own no, 2 usage, 3 not found, 4 conflict, 5 refused, 6 unavailable, "
    "7 not allowed"
)
GROUPS: Final = {
    "job": "cli.jobs",
    "run": "cli.runs",
    "worker": "cli.workers",
    "stats": "cli.stats",
    "forecast": "cli.forecast",
    "audit": "cli.audit",
    "admin": "cli.admin",
    "cron": "cli.cron",
    "crontab": "cli.crontab.commands",
    "import": "cli.importing.command",
    "user": "cli.users",
    "service": "cli.services",
    "token": "cli.tokens",
    "session": "cli.sessions",
    "binding": "cli.bindings",
    "access": "cli.access",
    "channel": "cli.channels",
    "rule": "cli.rules",
    "silence": "cli.silences",
    "alert": "cli.alerts",
    "notice": "cli.notices",
    "signing": "cli.signing",
}
"""The module of each noun, loaded when it is asked for."""
LOGIN_COMMANDS: Final = ("login", "logout", "whoami")
"""They stand for themselves, without a noun; their module is `cli.login`."""
PROGRAMS: Final = ("manager", "notifier", "worker")
"""What `etcron start` starts."""


_FOR_ALL: Final = ("--server", "--ca", "--profile", "-o")
_LONGEST_USAGE: Final = 8
"""Lines."""


class _Once(argparse._StoreAction):
    """What takes one value: a second one would silently take the place of the first.

    But for options that may stand before the noun: an alias may have one, and the command line another.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if option_string is not None and option_string not in _FOR_ALL and self.dest in parser.given:
            raise argparse.ArgumentError(self, "given twice, and takes one value")
        parser.given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """Takes no abbreviated options (a script must not break when one is added); leaves the examples' lines alone.

    A mistake is reported with the usage of the command that was mistaken, and with the name that was probably meant.
    """

    words: Sequence[str] = ()
    """What a word that it does not take may have been meant to be."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        self.explain: Callable[[], None] = lambda: None
        """Adds to the help what costs something to find out."""
        self.given: set[str] = set()
        """What has a value by this command line."""
        super().__init__(**options)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def format_help(self) -> str:
        self.explain()
        return super().format_help()

    def print_usage(self, file: Any = None) -> None:
        """As argparse does; but a usage that would hide the mistake it stands above is only named."""
        usage = self.format_usage()
        if usage.count("\n") > _LONGEST_USAGE:
            usage = f"usage: {self.prog} [options]; {self.prog} --help lists them\n"
        self._print_message(usage, file if file is not None else sys.stdout)

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse does; but that a help cannot be written is not passed over, as later Pythons do."""
        if message and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; but what is not known is not passed up to the command above."""
        self.given.clear()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            known = self._option_string_actions if name.startswith("-") else self.words
            self.error(f"unrecognized arguments: {one_line(' '.join(unknown))}{_meant(name, known)}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += _meant(str(value), map(str, action.choices or ()))
            raise


def _meant(name: str, known: Iterable[str]) -> str:
    from common.errors import nearest

    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""


Verbs = Any
"""What argparse's add_subparsers gives; its type has no public name."""


def add_group(prog: str, description: str) -> tuple[Parser, Verbs]:
    """The parser of a group of commands such as `etcron job`, and where its commands are added."""
    parser = Parser(prog=prog, description=description, epilog=EXIT_STATUSES)
    return parser, parser.add_subparsers(required=True, metavar="COMMAND", dest="command")


def add_command(verbs: Verbs, name: str, run: Run, *, does: str, examples: Sequence[str]) -> Parser:
    """One command of a group, with its examples below its help."""
    shown = "\n".join(f"  {example}" for example in examples)
    title = "example" if len(examples) == 1 else "examples"
    parser: Parser = verbs.add_parser(name, help=does, description=does, epilog=f"{title}:\n{shown}")
    parser.set_defaults(run=run)
    return parser


def add_server(parser: argparse.ArgumentParser) -> None:
    """Where the manager is. The default and the variable are looked at when the client is made."""
    parser.add_argument(
        "--server",
        metavar="URL",
        help="the manager, or several with commas (ETCRON_SERVER, else your login's, else this machine's; unix:/PATH)",
    )
    parser.add_argument(
        "--ca", metavar="FILE", help="who signs the manager's certificate (ETCRON_CA, else the system's)"
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="the login that is used, and its server (ETCRON_PROFILE, else default)"
    )


def with_options_behind(arguments: Sequence[str]) -> list[str]:
    """The same command: options that most commands take, given before its noun or between this and its verb, go behind.

    ``etcron --server URL -o json job list`` is what other programs of this kind take. CommandError: another option
    stands before the noun.
    """
    words, options, at = list(arguments), list[str](), 0
    while at < min(2, len(words)):
        if words[at].partition("=")[0] in _FOR_ALL:
            given = words[at : at + (1 if "=" in words[at] else 2)]
            options += given
            del words[at : at + len(given)]
        else:
            at += 1
    nouns = (*GROUPS, *LOGIN_COMMANDS)
    if words and words[0] in nouns:
        # Right behind, so that what is given there, too, counts: the former may be an alias's.
        end = 2 if words[0] in GROUPS and len(words) > 1 and not words[1].startswith("-") else 1
        return [*words[:end], *options, *words[end:]]
    noun = next((one for one in words if one in nouns), None)
    if noun is not None and words[0].startswith("-") and words[0] not in ("-h", "--help", "--version"):
        message = f"{words[0]} stands before {noun}: options go behind the command (etcron {noun} --help)"
        raise CommandError(one_line(message), ExitStatus.USAGE)
    return list(arguments)


def add_output(parser: argparse.ArgumentParser) -> None:
    """How to print data."""
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output", help="how to print it (table)")


def add_state(parser: argparse.ArgumentParser, *, disable: str, enable: str, required: bool = False) -> None:
    """Whether an account counts; ``disabled`` is None where neither is given."""
    state = parser.add_mutually_exclusive_group(required=required)
    state.add_argument("--disable", action="store_const", const=True, dest="disabled", help=disable)
    state.add_argument("--enable", action="store_const", const=False, dest="disabled", help=enable)


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Why: it is kept, and shown."""
    parser.add_argument("--reason", metavar="TEXT", help="why; others see it")


def count(low: int, high: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number within limits."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low:,} to {high:,}")
        return int(text)

    return read


def seconds(text: str) -> float:
    """The type of an argument that is a number of seconds; the manager says which ones it takes."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 300")
    return number


def pairs_of(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """The values of an option such as `--env K=V` that may be repeated."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandError(f"{option}: {text!r} has no name; write {option} NAME=VALUE", ExitStatus.USAGE)
        if name in pairs:
            raise CommandError(f"{option}: {name} is given twice; give it once", ExitStatus.USAGE)
        pairs[name] = value
    return pairs


revision: Final = count(1, 10**18)
"""The type of an argument that is a job's revision."""
