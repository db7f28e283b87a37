"""No text makes one of our regular expressions take more than a few steps for each of its characters."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from math import inf
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import yaml

from common.crontab import lines
from common.jobs.job import JobSpec
from common.jobs.kinds import members_of
from tests.support.backtracking import Backtracking, parsed, pumps
from tests.support.sources import NODES, TEXTS

HOW = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
LENGTH, ENOUGH, STEEPEST, SQUARE = 16, 250, 2.5, 4.5
"""Twice the text may take so many times the steps; below 250 it is not asked."""
MADE_IN_A_FUNCTION = {
    "common/configuration/keys.py": "self.pattern",  # a field of what is read with the module
    "common/words/describe.py": "form",  # all of them are in a tuple of the module
    "common/crontab/lines.py": "form",
    "common/jobs/kinds.py": "self.pattern",  # of the fields of a job, and of a module's kinds
}


OF_SHORT_TEXTS = {
    "common/configuration/keys.py: '([?&;][^=&;]*)=([^&;]*)'": "a URI of the operator's own",
}
"""They may take the square."""


TOO_MANY = 20_000


class Expression(NamedTuple):
    place: str
    pattern: str
    flags: int
    how: str
    """Which method it is used with; all that look at every place are as `search`."""


def modules() -> Iterator[tuple[str, str, ModuleType]]:
    for path, text in TEXTS.items():
        if re.search(r"\bimport re$|\bre\.", text, re.MULTILINE):
            name = ".".join(path.with_suffix("").parts)
            yield str(path), text, importlib.import_module(name.removesuffix(".__init__"))


def compiled(value: object) -> Iterator[re.Pattern[str]]:
    """Those in a value of a module, however deep."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for one in value:
            yield from compiled(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from compiled(getattr(value, one.name, None))
            pattern = getattr(value, one.name, None) if one.name == "pattern" else None
            if isinstance(pattern, str):
                yield re.compile(pattern)


def used(text: str, name: str) -> set[str]:
    return {how for how in re.findall(rf"\b{name}\.([a-z]+)\b", text) if how in HOW} or {"fullmatch"}


def inline(path: str, module: ModuleType) -> Iterator[Expression]:
    for node in NODES[Path(path)]:
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args):
            continue
        source, how = ast.unparse(node.args[0]), ast.unparse(node.func).removeprefix("re.")
        if how in HOW and MADE_IN_A_FUNCTION.get(path) != source:
            yield Expression(f"{path}: {source}", eval(source, vars(module)), 0, how)
        elif how == "compile" and not isinstance(node.args[0], ast.Constant | ast.JoinedStr | ast.Call):
            assert MADE_IN_A_FUNCTION.get(path) == source, f"{path}: where is {source} written down?"


def expressions() -> Iterator[Expression]:
    for path, text, module in modules():
        yield from inline(path, module)
        for name, value in vars(module).items():
            for one in compiled(value):
                pattern, flags = parsed(one)
                yield from (Expression(f"{path}: {name}", pattern, flags, how) for how in used(text, name))
    for name, member in members_of(JobSpec).items():
        for one in compiled(member.kind):
            yield Expression(f"common/jobs/job.py: {name}", *parsed(one), "fullmatch")
    for _, one in {pair for pairs in yaml.SafeLoader.yaml_implicit_resolvers.values() for pair in pairs}:
        yield Expression("yaml", *parsed(one), "match")
    entry = rf"(?P<when>(?:{lines._FIELD}){{5}})(?P<user>\S+)\s+(?P<command>\S.*)"
    yield Expression("common/crontab/lines.py: form", entry, re.DOTALL, "fullmatch")


def steepest(expression: Expression) -> tuple[float, str]:
    """How many times the steps of a text those of one twice as long are, at worst; and of which."""
    matcher, worst = Backtracking(expression.pattern, expression.flags), (0.0, "")
    pairs = zip(*(pumps(expression.pattern, expression.flags, LENGTH * times) for times in (1, 2)), strict=True)
    for once, twice in pairs:
        steps = matcher.count(twice, expression.how, limit=TOO_MANY)
        if steps == TOO_MANY:
            return inf, once
        if steps > ENOUGH:
            worst = max(worst, (steps / matcher.count(once, expression.how, limit=TOO_MANY), once))
    return worst


@pytest.mark.slow
def test_no_text_makes_an_expression_slow() -> None:
    of = {(one.pattern, one.flags, one.how): one for one in expressions()}
    assert len(of) > 60
    for one in of.values():
        times, text = steepest(one)
        assert times <= (SQUARE if one.place in OF_SHORT_TEXTS else STEEPEST), f"{one}: {times:.1f} times for {text!r}"


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        (r"(?:\s*-\s+)*(?:[^'\"#]*?:\s+|\s*-\s+)?[*@]", "match"),
        (r"(?:aa|aa)*b", "match"),
        (r"(?:a+)+", "fullmatch"),
        (r"\s*-?\s*", "fullmatch"),
        (r"(\w://[^\s:/@]*):[^\s]*@", "sub"),
    ],
)
def test_an_expression_that_is_slow_is_found(pattern: str, how: str) -> None:
    assert steepest(Expression("", pattern, 0, how))[0] > STEEPEST


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?:a|b)+c", "ababc"), (r"(?:a|b)+c", "abab"), (r"[^a\d]{2,3}?x*", "zzzxx"), (r"(?<!a)b(?=c)c", "bc"),
        (r"a*+a", "aaa"), (r"^\S+ (?:AB|C) $", "x AB "), (r"(?>a|ab)c", "abc"), (r"[A-Za-z]{3}|[0-9]+", "1234"),
    ],
)  # fmt: skip
def test_steps_are_counted_of_what_python_does(pattern: str, text: str) -> None:
    for how in ("match", "fullmatch", "search"):
        matcher = Backtracking(pattern)
        matcher.count(text, how, limit=10_000)
        assert matcher.found is (getattr(re, how)(pattern, text) is not None)
