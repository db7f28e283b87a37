"""What TAB completes: commands, options and choices, from the parsers; names of jobs and workers, from a manager.

The script for a shell (`etcron completion SHELL`) hands over the words up to the cursor:
`etcron __complete SHELL WORD...`. It never changes with the commands, so it is installed once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from cli.arguments import GROUPS, LOGIN_COMMANDS, PROGRAMS, Parser
from cli.errors import CommandError, ExitStatus
from cli.printing import print_output

SCRIPTS: Final = {
    "bash": """\
_etcron() {
    mapfile -t COMPREPLY < <("$1" __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${COMPREPLY[0]} == :files ]]; then
        COMPREPLY=()
        compopt -o default
    fi
}
complete -F _etcron etcron
""",
    "zsh": """\
#compdef etcron
_etcron() {
    local -a found
    found=("${(@f)$("${(Q)words[1]}" __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ $found[1] == :files ]]; then
        _files
    elif [[ -n $found[1] ]]; then
        _describe etcron found
    fi
}
if [[ $funcstack[1] == _etcron ]]; then
    _etcron "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _etcron etcron
fi
""",
    "fish": """\
function __etcron_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l found ($words[1] __complete fish $words[2..-1] "$last" 2>/dev/null)
    if test "$found[1]" = :files
        __fish_complete_path "$last"
    else
        string join -- \\n $found
    end
end
complete -c etcron -f -a '(__etcron_complete)'
""",
}
_LINES: Final[Mapping[str, Callable[[str, str], str]]] = {
    "bash": lambda value, _: shlex.quote(value),
    "zsh": lambda value, does: value.replace(":", r"\:") + (f":{does}" if does else ""),
    "fish": lambda value, does: f"{value}\t{does}",
}
_FILES: Final = ":files"
"""Tells the script to complete files."""
_NAMED: Final = {
    ("job", "name"): "jobs", ("job", "names"): "jobs", ("stats", "job"): "jobs", ("run", "job"): "jobs",
    ("worker", "names"): "workers", ("run", "worker"): "workers", ("access", "job"): "jobs",
    ("user", "name"): "users", ("user", "names"): "users", ("service", "name"): "services",
    ("service", "names"): "services",
    ("channel", "name"): "channels", ("channel", "names"): "channels", ("rule", "names"): "rules",
    ("rule", "to"): "channels", ("notice", "channel"): "channels", ("silence", "names"): "silences",
    ("silence", "job"): "jobs", ("alert", "job"): "jobs", ("alert", "names"): "jobs", ("channel", "job"): "jobs",
    ("token", "names"): "tokens", ("session", "names"): "sessions", ("binding", "names"): "bindings",
}  # fmt: skip
"""The arguments, by noun, that name what a manager knows: by its name, or else by its id."""
_DEADLINE_S: Final = 0.8
"""For the manager's answer: TAB takes a second at most."""
_AT_MOST: Final = 200
"""So many jobs are looked at."""

Candidates = Iterable[tuple[str, str]]
"""What a word may become, and what that means."""


def complete(arguments: Sequence[str]) -> int:
    """Print what the last word may become, a line each: of the shell's name, and the words after `etcron`."""
    shell, *words = arguments or ("",)
    if shell not in SCRIPTS:
        return ExitStatus.USAGE
    if shell == "bash":  # it takes `--state=failing` for three words
        words = _whole(words)
        words = [word for word in words[:-1] if word != "="] + [word.removeprefix("=") for word in words[-1:]]
    for value, does in candidates(words or [""]):
        print_output(_LINES[shell](value, does) if value != _FILES else value)
    return ExitStatus.OK


def _whole(pieces: Iterable[str]) -> list[str]:
    """The words of which these are pieces: bash takes each `:` of an address for a word of its own."""
    words: list[str] = []
    for piece in pieces:
        if words and ":" in (piece, words[-1][-1:]):
            words[-1] += piece
        else:
            words.append(piece)
    return words


def candidates(words: Sequence[str]) -> list[tuple[str, str]]:
    """What the last of the words after `etcron` may become."""
    from cli import programs

    noun = words[0]
    match words:
        case ["start", program, _, *_] if program in PROGRAMS:
            lines = [(programs.program_parser("worker" if program == "worker" else "manager"), words[2:])]
        case [command, _, *_] if command in LOGIN_COMMANDS:
            lines = [(_group("cli.login"), words)]
        case [group, _, *_] if group in GROUPS:
            lines = [(_group(GROUPS[group]), words[1:])]
        case _:
            lines = [(programs.parser(), words)]
    return [one for parser, rest in lines for one in _of_parser(parser, noun, rest)]


def _group(module: str) -> Parser:
    parser: Parser = importlib.import_module(module).parser()
    return parser


def _of_parser(parser: argparse.ArgumentParser, noun: str, words: Sequence[str]) -> Candidates:
    """By argparse's own tables: it has no public way to ask for them."""
    *before, last = words
    given: dict[str, str] = {}
    option: argparse.Action | None = None
    position = 0
    for word in before:
        if option is not None and not (option.nargs == "+" and word.startswith("-")):
            given[option.dest] = word
            option = option if option.nargs == "+" else None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            option = parser._option_string_actions.get(name)
            if option is not None:
                given[option.dest] = value
                option = option if option.nargs != 0 and not equals else None
        elif (verbs := _verbs(parser)) is not None and word in verbs.choices:
            parser, position = verbs.choices[word], 0
        else:
            position += 1
    name, equals, value = last.partition("=")
    if option is not None and not (option.nargs == "+" and last.startswith("-")):
        yield from _starting(last, _values(option, noun, last, given))
    elif equals and (option := parser._option_string_actions.get(name)) is not None:
        found = _starting(value, _values(option, noun, value, given))
        yield from ((text if text == _FILES else f"{name}={text}", does) for text, does in found)
    else:
        arguments = [action for action in parser._actions if not action.option_strings]
        wanted = arguments[min(position, len(arguments) - 1)] if arguments else None
        takes_it = wanted is not None and (position < len(arguments) or wanted.nargs in ("+", "*"))
        if wanted is not None and takes_it and not last.startswith("-"):
            yield from _starting(last, _values(wanted, noun, last, given))
        if last.startswith("-") or not takes_it:
            yield from _starting(last, _options(parser, given))


def _verbs(parser: argparse.ArgumentParser) -> Any:
    return next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)


def _options(parser: argparse.ArgumentParser, given: Mapping[str, str]) -> Candidates:
    """Those that have not been given, or may be given again."""
    for action in parser._actions:
        if action.option_strings and (action.dest not in given or isinstance(action, argparse._AppendAction)):
            yield action.option_strings[-1], _plain(action.help)


def _values(action: argparse.Action, noun: str, start: str, given: Mapping[str, str]) -> Candidates:
    if isinstance(action, argparse._SubParsersAction):
        return [(verb.dest, _plain(verb.help)) for verb in action._choices_actions]
    if action.choices is not None:
        return [(str(choice), "") for choice in action.choices]
    if action.metavar in ("FILE", "DIR"):
        return [(_FILES, "")]
    kind = _NAMED.get((noun, action.dest))
    return [] if kind is None else [(name, "") for name in _names(kind, start, given)]


def _starting(start: str, found: Candidates) -> Candidates:
    return [one for one in found if one[0].startswith(start) or one[0] == _FILES]


def _plain(text: str | None) -> str:
    return (text or "").replace("%%", "%")


def _names(kind: str, start: str, given: Mapping[str, str]) -> list[str]:
    """What a manager calls its jobs or workers; none where it does not answer in time."""
    from cli.client import Client

    found: list[str] = []
    query: dict[str, str | int | None] = {"q": start or None, "limit": _AT_MOST} if kind == "jobs" else {}
    by = "id" if kind in ("tokens", "sessions", "bindings", "silences") else "name"

    def ask() -> None:
        where = argparse.Namespace(server=given.get("server"), ca=given.get("ca"), profile=given.get("profile"))
        with contextlib.suppress(CommandError), Client.of(where) as client:
            found.extend(str(row.get(by)) for row in client.get(f"/api/v1/{kind}", query)["items"])

    # A thread, as the resolver of host names heeds no deadline.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_DEADLINE_S)
    return [name for name in found if name.isprintable()]
