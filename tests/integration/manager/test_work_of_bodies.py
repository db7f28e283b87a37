"""No call takes more than its share of the largest body that it accepts: twice the body is at most twice the work.

Work is counted, not timed: lines and calls of Python, and of the methods that look through a list or a text all that
they may look through. What is quadratic does four times as much for twice the body.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, Final, Self

import pytest

from common.jobs.reader import MAX_SPEC_BYTES
from common.jobs.schema import job_schema
from manager.api.openapi import document
from tests.support.access import as_administrator
from tests.support.managing import Managed

_LOOKING_THROUGH: Final = frozenset({"count", "index", "remove", "insert", "find", "rfind", "replace", "split", "copy"})
_SIZES: Final = (MAX_SPEC_BYTES // 4, MAX_SPEC_BYTES // 2)
"""One twice as long as the other, of what is checked field by field: they tell a square, too."""
_LARGE: Final = (MAX_SPEC_BYTES, 2 * MAX_SPEC_BYTES)
"""The same, for what is refused as a whole where it is a job."""
_NOT_READ: Final = (408, 429, 503)
"""A busy manager says to try again."""
_MORE_THAN_TWICE: Final = 2.8
_BESIDE: Final = 5_000
"""Steps of what goes on in this process beside the call."""
_MEMBER_BYTES: Final = 50
"""For a member's name, and what is around it."""
_PATHS: Final = {"{name}": "j", "{name:[^/]+}": "j", "{id}": "j%40100%231", "{revision}": "12"}

Shape = Callable[[int], Any]


class Steps:
    """Counts what this thread does."""

    def __init__(self) -> None:
        self.taken = 0

    @contextmanager
    def counted(self) -> Iterator[Self]:
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        try:
            yield self
        finally:
            sys.setprofile(None)
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        self.taken += 1
        return self._trace

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ in _LOOKING_THROUGH:
            told = getattr(argument, "__self__", None)
            self.taken += len(told) if isinstance(told, list | tuple | str | bytes | bytearray) else 0


def _changing_calls() -> list[tuple[str, str, dict[str, Any]]]:
    """(method, path, the schema of its body) of all that take JSON. One reader reads the fields of a job for all calls:
    they are gone through where it is saved.
    """
    found = []
    for path, calls in document()["paths"].items():
        for method, call in calls.items():
            if "requestBody" in call:
                schema = call["requestBody"]["content"]["application/json"]["schema"]
                of_a_job = job_schema() if method == "put" else {"properties": {}}
                found.append((method.upper(), path, schema if "properties" in schema else of_a_job))
    return found


CALLS: Final = _changing_calls()


def _object(members: Iterator[str], size: int) -> str:
    taken, length = [], 2
    for member in members:
        length += len(member) + 1
        if length > size:
            break
        taken.append(member)
    return "{" + ",".join(taken) + "}"


def _bodies(schema: dict[str, Any], size: int) -> Iterator[tuple[str, str]]:
    """(what is long in it, the body of about so many bytes)."""
    yield from _unknown(size)
    for name in schema["properties"]:
        for what, value in _values(size - _MEMBER_BYTES):
            yield f"{name}: {what}", f'{{"{name}":{value}}}'
    for path, most in _lists(schema):
        for of, item in (("numbers", str), ("texts", lambda n: f'"{n}"')):
            value = "[" + ",".join(map(item, range(most * size // _SIZES[-1]))) + "]"
            for name in reversed(path):
                value = f'{{"{name}":{value}}}'
            yield f"{'.'.join(path)}: all its {of}", value


@cache
def _unknown(size: int) -> Sequence[tuple[str, str]]:
    return (
        ("members", _object((f'"m{n}":0' for n in itertools.count()), size)),
        ("one member twice", _object((f'"m{n}":0' for n in itertools.count()), size - 20)[:-1] + ',"z":0,"z":0}'),
        ("one member again and again", _object(('"m":0' for _ in itertools.count()), size)),
        ("depth", '{"m":' * (size // 6) + "0" + "}" * (size // 6)),
    )


@cache
def _values(size: int) -> Sequence[tuple[str, str]]:
    return (
        ("text", json.dumps("0 " * (size // 2))),
        ("commas", json.dumps("1," * (size // 2))),
        ("texts", "[" + ",".join(f'"{n:07}"' for n in range(size // 10)) + "]"),
        ("members", _object((f'"m{n}":"0"' for n in itertools.count()), size)),
        ("lists", "[" * (size // 2) + "]" * (size // 2)),
    )


def _lists(schema: dict[str, Any], *path: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """(where, how long at most) of the lists that have a limit of their own."""
    for one in (schema, *schema.get("anyOf", ())):
        if "maxItems" in one:
            yield path, one["maxItems"]
        for name, inner in one.get("properties", {}).items():
            yield from _lists(inner, *path, name)


@pytest.fixture
async def manager(manager: Managed) -> Managed:
    """Who calls administers everything: each body is read."""
    await as_administrator(manager)
    return manager


async def _work(manager: Managed, method: str, path: str, body: bytes, kind: str) -> int:
    for part, value in _PATHS.items():
        path = path.replace(part, value)
    for _ in range(10):
        with Steps().counted() as steps:
            async with manager.http.request(method, path, data=body, headers={"Content-Type": kind}) as response:
                await response.read()
        assert response.status != 500
        if response.status not in _NOT_READ:
            return steps.taken
    raise AssertionError(f"{method} {path} is not read")


def _grows_faster(works: Sequence[int]) -> bool:
    return any(twice > _MORE_THAN_TWICE * once + _BESIDE for once, twice in itertools.pairwise(works))


async def _too_much(
    manager: Managed, method: str, path: str, kind: str, sizes: Sequence[int],
    bodies_of: Callable[[int], Iterable[tuple[str, str]]],
) -> dict[str, list[int]]:  # fmt: skip
    """The work of each body, size by size, that grows faster than the body does.

    The longest is sent first, and alone where its work is little beside that of an empty object: it has not grown much.
    """
    too_much, least = {}, min([await _work(manager, method, path, b"{}", kind) for _ in range(2)])
    for bodies in zip(*map(bodies_of, sizes), strict=True):
        assert all(len(body) <= size for size, (_, body) in zip(sizes, bodies, strict=True)), bodies[0][0]
        longest = await _work(manager, method, path, bodies[-1][1].encode(), kind)
        if not _grows_faster([least, longest]):
            continue
        works = [*[await _work(manager, method, path, body.encode(), kind) for _, body in bodies[:-1]], longest]
        if _grows_faster(works):  # or something else went on beside a call: the lesser of two counts is its own
            again = [await _work(manager, method, path, body.encode(), kind) for _, body in bodies]
            works = list(map(min, works, again))
        if _grows_faster(works):
            too_much[bodies[0][0]] = works
    return too_much


@pytest.mark.parametrize(("method", "path", "schema"), CALLS, ids=[f"{method} {path}" for method, path, _ in CALLS])
async def test_twice_the_body_is_not_four_times_the_work(
    manager: Managed, method: str, path: str, schema: dict[str, Any]
) -> None:
    kind = "application/json"
    assert await _too_much(manager, method, path, kind, _SIZES, lambda size: _bodies(schema, size)) == {}
    assert await _too_much(manager, method, path, kind, _LARGE, _unknown) == {}


@pytest.mark.parametrize("path", ["/job/save", "/job/delete", "/job/kill"])
async def test_twice_the_form_is_not_four_times_the_work(manager: Managed, path: str) -> None:
    def forms(size: int) -> Iterator[tuple[str, str]]:
        yield "fields", "&".join(f"m{n}=0" for n in range(size // 12))
        yield "one field", "&".join("m=0" for _ in range(size // 4))
        yield "escapes", "name=" + "%20" * (size // 3 - 5)
        yield "members", "job=" + _object((f'"m{n}":0' for n in itertools.count()), size - 4)

    assert await _too_much(manager, "POST", path, "application/x-www-form-urlencoded", _SIZES, forms) == {}
