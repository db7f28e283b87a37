"""``reference/commands.md``: every command with its options and examples, from the parsers that read them."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from typing import Final

from cli.arguments import GROUPS, Parser
from cli.programs import parser as top_parser
from common.configuration.flags import CONFIG_GROUP

_HEAD: Final = """\
# Every command

What `etcron VERB --help` prints. What all commands have in common (`--server`, `--ca`, `--profile`, `-o`, exit statuses), and what some do
in detail: [the command line](cli.md). The flags of `etcron start manager` and the like are [the keys of their configuration](configuration.md).
"""
_COMMON: Final = {"--server", "--ca", "--profile", "-o", "--help"}
_ELSEWHERE: Final = {**GROUPS, "login": "cli.login"}
_WITH_LOGIN: Final = {"logout", "whoami"}
"""They come with ``login``."""


def page() -> str:
    """The whole of it."""
    return _HEAD + "".join(_nouns())


def _nouns() -> Iterator[str]:
    for name, command in _verbs(top_parser()).items():
        if name in _WITH_LOGIN:
            continue
        if name not in _ELSEWHERE:
            yield f"\n## etcron {name}\n\n{_sentence(_does(top_parser(), name))}\n{_details(command)}"
            for inner, one in _verbs(command).items():
                yield f"\n### etcron {name} {inner}\n\n{_sentence(_does(command, inner))}\n{_details(one)}"
            continue
        group = importlib.import_module(_ELSEWHERE[name]).parser()
        yield f"\n## etcron {name}\n\n{_sentence(group.description or '')}\n"
        if not (inner_commands := _verbs(group)):
            yield _details(group)
        for inner, one in inner_commands.items():
            if inner != name:
                prog = one.prog if name != "login" else f"etcron {inner}"
                yield f"\n### {prog}\n\n{_sentence(one.description or '')}\n{_details(one)}"
            else:
                yield _details(one)


def _verbs(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    """The commands below this one; their groups have no public way to ask for them."""
    return next((dict(one.choices) for one in parser._actions if isinstance(one, argparse._SubParsersAction)), {})


def _does(parser: argparse.ArgumentParser, name: str) -> str:
    (verbs,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return next((one.help or "" for one in verbs._choices_actions if one.dest == name), "")


def _details(parser: Parser) -> str:
    """Its arguments and its examples."""
    parser.explain()
    keys = {key for group in parser._action_groups if group.title == CONFIG_GROUP for key in group._group_actions}
    shown = (one for one in parser._actions if one not in keys and not _COMMON.intersection(one.option_strings))
    rows = "".join(map(_argument, shown)) + ("* and a flag for each [key](configuration.md)\n" if keys else "")
    _, _, examples = (parser.epilog or "").partition("example")
    lines = [line.strip() for line in examples.splitlines()[1:] if line.startswith("  ")]
    return (f"\n{rows}" if rows else "") + ("\n```sh\n" + "\n".join(lines) + "\n```\n" if lines else "")


def _argument(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):
        return ""
    takes = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices:
        takes = "|".join(map(str, action.choices)) if action.option_strings else takes
    name = ", ".join(action.option_strings) + (f" {takes}" if takes else "") if action.option_strings else takes
    text = (action.help or "").replace("%%", "%")
    if not text and not action.option_strings:
        return ""
    return f"* `{str(name).strip()}`{': ' + text if text else ''}\n"


def _sentence(text: str) -> str:
    text = re.sub(r" \(etcron \w+( PROGRAM)? --help\)", "", text).strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".") if text else ""
