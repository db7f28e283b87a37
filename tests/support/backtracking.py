"""How many steps a regular expression takes, counted: a matcher that backtracks as Python's own does, over its parse.

And the texts that make one blow up: its own pieces, many times over, and then something that does not fit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

ops: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

_Then = Callable[[int], bool]
_MANY = ops.MAXREPEAT
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_SINGLE = (ops.LITERAL, ops.IN, ops.ANY, ops.NOT_LITERAL)
"""Those that take one character."""
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    ops.CATEGORY_DIGIT: str.isdigit, ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
    ops.CATEGORY_NOT_SPACE: lambda one: not one.isspace(), ops.CATEGORY_NOT_DIGIT: lambda one: not one.isdigit(),
}  # fmt: skip
_ODD = "\0!}-: ,@/a0\n"


class TooManyStepsError(Exception):
    """The limit is reached."""


class Backtracking:
    """One expression: how many steps it takes for a text."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._tree = parser.parse(pattern, flags).data
        self._text = ""
        self.steps = self._limit = 0
        self.found = False
        self._sets: dict[tuple[int, str], bool] = {}
        """Of each set of the tree and character: whether it fits."""

    def count(self, text: str, how: str, *, limit: int) -> int:
        """Steps of `match`, `fullmatch` or anything that looks at every place, as `search`; at most the limit."""
        self._text, self.steps, self._limit, self.found = text, 0, limit, False
        end: _Then = (lambda at: at == len(text)) if how == "fullmatch" else (lambda at: True)
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(200_000)
        try:
            for start in range(len(text) + 1) if how not in ("match", "fullmatch") else (0,):
                self.found = self._run(self._tree, 0, start, end)
                if self.found:
                    break  # `sub` and the like go on behind it, so that nothing is looked at twice
        except TooManyStepsError:
            return limit
        finally:
            sys.setrecursionlimit(before)
        return self.steps

    def _run(self, tree: list[Any], index: int, at: int, then: _Then) -> bool:  # noqa: C901 - one case an operation
        while True:
            self.steps += 1
            if self.steps >= self._limit:
                raise TooManyStepsError
            if index == len(tree):
                return then(at)
            op, arg = tree[index]
            if op not in _SINGLE:
                break
            if at == len(self._text) or not self._takes(op, arg, self._text[at]):
                return False
            index, at = index + 1, at + 1
        rest: _Then = lambda place: self._run(tree, index + 1, place, then)  # noqa: E731
        if op in _REPEATS:
            low, high, body = arg
            return self._repeat(op, low, high, body.data, at, rest)
        if op is ops.BRANCH:
            return any(self._run(branch.data, 0, at, rest) for branch in arg[1])
        if op is ops.SUBPATTERN:
            return self._run(arg[3].data, 0, at, rest)
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            direction, body = arg
            begin = at if direction > 0 else at - body.getwidth()[0]
            holds = begin >= 0 and self._run(body.data, 0, begin, lambda place: True)
            return holds is (op is ops.ASSERT) and rest(at)
        if op is ops.ATOMIC_GROUP:
            return self._atomic(arg.data, at, rest)
        if op is ops.AT:
            is_begin = arg in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING)
            return at == (0 if is_begin else len(self._text)) and rest(at)
        raise AssertionError(f"what is {op}?")

    def _takes(self, op: Any, arg: Any, one: str) -> bool:
        if op is ops.LITERAL:
            return bool(ord(one) == arg)
        key = id(arg), one
        if key not in self._sets:
            self._sets[key] = _fits(op, arg, one)
        return self._sets[key]

    def _atomic(self, tree: list[Any], at: int, rest: _Then) -> bool:
        ends: list[int] = []

        def note(place: int) -> bool:
            ends.append(place)
            return True

        return self._run(tree, 0, at, note) and rest(ends[0])

    def _repeat(self, op: Any, low: int, high: int, body: list[Any], at: int, rest: _Then) -> bool:
        if len(body) == 1 and body[0][0] in _SINGLE:
            return self._repeat_one(op, low, high, body[0], at, rest)

        def again(times: int, since: int) -> bool:
            if op is ops.MIN_REPEAT and times >= low and rest(since):
                return True
            more = times < high and self._run(
                body, 0, since, lambda place: (place > since or times < low) and again(times + 1, place)
            )
            return more or (op is not ops.MIN_REPEAT and times >= low and rest(since))

        return again(0, at)

    def _repeat_one(self, op: Any, low: int, high: int, one: tuple[Any, Any], at: int, rest: _Then) -> bool:
        most = at
        while most < len(self._text) and (high is _MANY or most - at < high) and self._takes(*one, self._text[most]):
            most += 1
            self.steps += 1
        places = range(at + low, most + 1)
        if op is ops.POSSESSIVE_REPEAT:
            places = places[-1:]
        return any(rest(place) for place in (places if op is ops.MIN_REPEAT else reversed(places)))


def pumps(pattern: str, flags: int, length: int) -> Iterator[str]:
    """Texts of about this length that may cost it much."""
    tree = parser.parse(pattern, flags).data
    beginnings = {"", *_beginnings(tree)}
    units = {unit for unit in (*_bodies(tree), *_signs(tree), *_ODD, *beginnings) if unit}
    units |= {unit + sign for unit in [*units] for sign in " -:" if len(unit) < 4}
    for before in sorted(beginnings):
        for unit in sorted(units):
            for tail in ("", "\0", "}"):
                yield before + unit * (length // len(unit)) + tail


def _fits(op: Any, arg: Any, one: str) -> bool:
    if op is ops.LITERAL:
        return bool(ord(one) == arg)
    if op is ops.NOT_LITERAL:
        return bool(ord(one) != arg)
    if op is ops.ANY:
        return True
    negated = arg[0][0] is ops.NEGATE
    return any(_is_in(kind, what, one) for kind, what in arg[negated:]) is not negated


def _is_in(kind: Any, what: Any, one: str) -> bool:
    if kind is ops.LITERAL:
        return bool(ord(one) == what)
    if kind is ops.RANGE:
        return bool(what[0] <= ord(one) <= what[1])
    return _CATEGORIES[what](one)


def _example(tree: Any) -> str:
    """A short text that fits, but for what is looked at beside it."""
    return "".join(_example_of(op, arg) for op, arg in tree)


def _example_of(op: Any, arg: Any) -> str:
    if op in _REPEATS:
        times: int = max(1, arg[0])
        return _example(arg[2]) * times
    if op is ops.BRANCH:
        return _example(arg[1][0])
    if op is ops.SUBPATTERN:
        return _example(arg[3])
    if op is ops.ATOMIC_GROUP:
        return _example(arg)
    if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
        return ""
    return next((one for one in "a0 -:/.,*x" + "".join(map(chr, range(1, 0x250))) if _fits(op, arg, one)), "")


def _within(op: Any, arg: Any) -> list[Any]:
    if op in _REPEATS:
        return [arg[2]]
    if op is ops.BRANCH:
        return list(arg[1])
    if op is ops.SUBPATTERN:
        return [arg[3]]
    return [arg] if op is ops.ATOMIC_GROUP else [arg[1]] if op in (ops.ASSERT, ops.ASSERT_NOT) else []


def _bodies(tree: Any) -> Iterator[str]:
    for op, arg in tree:
        if op in _REPEATS:
            yield _example(arg[2])
        for inner in _within(op, arg):
            yield from _bodies(inner)


def _signs(tree: Any) -> Iterator[str]:
    """Each character that it names."""
    for op, arg in tree:
        if op in (ops.LITERAL, ops.NOT_LITERAL):
            yield chr(arg)
        elif op is ops.IN:
            yield from (chr(what) for kind, what in arg if kind is ops.LITERAL)
        for inner in _within(op, arg):
            yield from _signs(inner)


def _beginnings(tree: Any) -> Iterator[str]:
    """What stands before each of its repetitions."""
    before = ""
    for op, arg in tree:
        if op in _REPEATS:
            yield before
        for inner in _within(op, arg):
            yield from (before + one for one in _beginnings(inner))
        before += _example_of(op, arg)


def parsed(pattern: re.Pattern[str] | re.Pattern[bytes]) -> tuple[str, int]:
    """The text of a compiled expression and what it was compiled with."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return text, pattern.flags & ~re.UNICODE
