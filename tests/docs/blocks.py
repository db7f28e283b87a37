"""The fenced blocks of the documentation, and how a command in one is read."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli import programs
from cli.arguments import GROUPS, LOGIN_COMMANDS

ROOT: Final = Path(__file__).parents[2]
GENERATED: Final = ROOT / "docs/reference/commands.md"
PAGES: Final = (
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path != GENERATED),
    *(ROOT / name for name in ("README.md", "UPGRADING.md", "CONTRIBUTING.md", "deploy/README.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
)
_BLOCK: Final = re.compile(
    r"^(?: *<!-- not run: (?P<why>[^\n]+) -->\n+)?(?P<margin> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=margin)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    why_not_run: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Those of a page, from above."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=str(page.relative_to(ROOT)),
            line=text.count("\n", 0, match.start("language")) + 1,
            language=match["language"],
            text=re.sub(f"^{match['margin']}", "", match["text"], flags=re.MULTILINE),
            why_not_run=match["why"],
        )
        for match in _BLOCK.finditer(text)
    ]


def etcron_calls(text: str) -> Iterator[list[str]]:
    """The arguments of each `etcron ...` in a block of shell."""
    for words in _commands(text):
        starts = [at for at, word in enumerate(words) if word.rpartition("/")[2] == "etcron" and _begins(words, at)]
        for at in starts:
            ends = (
                end for end, word in enumerate(words) if end > at and word in ("|", "&&", ";", ">", "<", "||", "2>")
            )
            yield words[at + 1 : next(ends, len(words))]


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each line; a text in quotes may go over several."""
    open_line = ""
    for line in text.replace("\\\n", " ").splitlines():
        open_line += line
        try:
            yield shlex.split(open_line, comments=True)
        except ValueError:
            open_line += "\n"
        else:
            open_line = ""
    assert not open_line, "a quote is not closed"


def _begins(words: list[str], at: int) -> bool:
    return at == 0 or words[at - 1] in ("|", "&&", ";", "||", "sudo") or "=" in words[at - 1]


def read_arguments(arguments: list[str]) -> None:
    """Parses them as the command line does, and does nothing; SystemExit where they are not accepted."""
    match arguments:
        case [noun, *rest] if noun in GROUPS:
            importlib.import_module(GROUPS[noun]).parser().parse_args(rest)
        case [noun, *_] if noun in LOGIN_COMMANDS:
            importlib.import_module("cli.login").parser().parse_args(arguments)
        case ["start", "worker", *rest]:
            programs.program_parser("worker").parse_args(rest)
        case ["start", "manager" | "notifier", *rest]:
            programs.program_parser("manager").parse_args(rest)
        case _:
            programs.parser().parse_args(arguments)
