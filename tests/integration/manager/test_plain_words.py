"""No answer speaks of Python: whatever is sent, the words are about what was sent and what to send instead."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from common.jobs.schema import job_schema
from manager.api.openapi import document
from tests.support.access import as_administrator
from tests.support.managing import Managed, Place, managing
from tests.support.requests import every_call

_INTERNALS: Final = re.compile(
    r"<class|<\w+[\w.]* object|object at 0x|0x[0-9a-f]{6,}|(?<!-)\bNone(Type)?\b|\b(True|False)\b|Traceback|\w+Error\b"
    r"|\b(str|bytearray|dict|tuple|float|isoformat|fromisoformat|sys\.\w+|json\.\w+|int|utf-8)\b|codec|surrogates? not"
    r"|Exception|unhashable|recursion|is not iterable|positional|\bb'|max_str_digits|aiohttp|asyncio|yarl|msgspec",
)
_TAKE_A_JOB: Final = 3
_QUOTED: Final = re.compile(r"'(None|True|False|nan|inf)'")
"""What nobody has sent, as if it had been."""
_ODD: Final[tuple[str, ...]] = (
    "null", "true", "0", "-1", "1.5", "1e400", "-0.0", "9" * 400, "9" * 5000, '""', '" "', '"\\u0000"', '"\\ud800"',
    '"é"', '"x"', '"2026-13-45T99:99:99Z"', '"2026-01-01T00:00:00+99:99"', '"9999-12-31T23:59:59-23:00"',
    '"0001-01-01"',
    '"5s5s"', '"* * * * * * *"', '"61 * * * * * *"', "[]", "[null]", "[[]]", "[1]", '["x","x"]', '[{"a":1}]',
    "{}", '{"a":null}',
    '{"":1}', '{"limit":"x"}', '{"exclude":[1]}', '{"exclude":["02-30"],"include":[]}', "[" * 200 + "]" * 200,
    '{"a":' * 200 + "1" + "}" * 200,
)  # fmt: skip
_BODIES: Final[tuple[bytes, ...]] = (
    b"", b"{", b"[]", b"null", b"1", b'"x"', b"NaN", b'{"a":NaN}', b'{"a":Infinity}', b"\xff\xfe", b"\xff", b"\x00",
    b"\xef\xbb\xbf{}", b'{"a":1,"a":2}', b"[" * 100_000, b'{"m":' * 50_000, b"9" * 10_000, b'{"\\ud800":1}',
    b'{"a\\u0000":1}', b"{'a':1}", b'{"a":1,}', "é".encode("utf-16"),
)  # fmt: skip
_QUERIES: Final = ("limit=x", "limit=%ff", "days=x", "from=x", "to=%00", "cursor=x", "cursor=%ed%a0%80", "status=x",
                   "state=x", "to=1e9", "n=None", "download=2", "label=%ff", "q=%ff", "before=9999-99",
                   "skip=x")  # fmt: skip
_HEADERS: Final[tuple[dict[str, str], ...]] = (
    {"If-Match": "x"}, {"If-Match": '"' + "9" * 30 + '"'}, {"If-None-Match": "x"}, {"Idempotency-Key": "é"},
    {"Content-Type": "text/x"}, {"Content-Encoding": "gzip"}, {"Content-Type": "application/json; charset=nonsense"},
)  # fmt: skip
_HEADERS_FOR_ALL: Final[tuple[dict[str, str], ...]] = (
    {"Origin": "x"}, {"Origin": "http://["}, {"Host": "["}, {"X-Forwarded-For": "["}, {"Accept-Language": "\x80"},
)  # fmt: skip
"""What is read before it is known which call it is."""


@pytest.fixture
async def manager(manager: Managed) -> Managed:
    """Who calls administers everything: each body is read."""
    await as_administrator(manager)
    return manager


def _words(text: str) -> str:
    """What it says, without what stands in quotes: that is the caller's own."""
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "", text)


def _texts(told: Any) -> list[str]:
    if isinstance(told, dict):
        return [text for name, one in told.items() for text in ([name] if name != "errno" else []) + _texts(one)]
    if isinstance(told, list):
        return [text for one in told for text in _texts(one)]
    return [told] if isinstance(told, str) else []


async def _faults(manager: Managed, method: str, path: str, body: bytes = b"", **headers: str) -> list[str]:
    """What an error says that it should not."""
    return (await _refusal(manager, method, path, body, **headers))[0]


async def _refusal(
    manager: Managed, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[list[str], set[str]]:
    """What an error says that it should not; the members that it refuses."""
    headers.setdefault("Content-Type", "application/json")
    async with manager.http.request(method, path, data=body, headers=headers) as response:
        if response.status < 400:
            return [], set()
        told = json.loads(await response.read())
    wrong = [] if response.status < 500 else [f"status {response.status}: {told}"]
    sent = f"{path} {body!r}"
    made_up = [text for text in _texts(told) for word in _QUOTED.findall(text) if word not in sent]
    refused = {re.split(r"[.\[]", error["field"])[0] for error in told.get("errors", ())}
    return wrong + made_up + [text for text in _texts(told) if _INTERNALS.search(_words(text))], refused


def _calls() -> list[tuple[str, str, list[str], Sequence[str]]]:
    """(method, path, members, what to send in them) of those that take JSON.

    One reader reads the fields of a job for all calls that take one: these share what is sent.
    """
    found, of_jobs = list[tuple[str, str, list[str], Sequence[str]]](), itertools.count()
    for path, calls in document()["paths"].items():
        there = path.replace("{name}", "j").replace("{id}", "j%40100%231").replace("{revision}", "12")
        for method, call in calls.items():
            if "requestBody" in call:
                members = call["requestBody"]["content"]["application/json"]["schema"].get("properties")
                odd = _ODD if members is not None else _ODD[next(of_jobs) :: _TAKE_A_JOB]
                names = list(job_schema()["properties"] if members is None else members)
                found.append((method.upper(), there, names, odd))
    assert next(of_jobs) == _TAKE_A_JOB
    return found


@pytest.mark.parametrize(
    ("method", "path", "members", "odd"), _calls(), ids=lambda one: one if isinstance(one, str) else ""
)
async def test_no_body_is_answered_with_words_of_python(
    manager: Managed, method: str, path: str, members: list[str], odd: Sequence[str]
) -> None:
    """One body has all members; its answer names those that are refused. What it does not name is sent alone."""
    await manager.call("PUT", "/api/v1/jobs/j", {"command": "echo", "cronExpr": "@yearly"})
    found: dict[object, list[str]] = {body[:60]: await _faults(manager, method, path, body) for body in _BODIES}
    names = (*members, "unknown")
    for value in odd:
        together = ",".join(f'"{name}":{value}' for name in names)
        found["all", value[:60]], refused = await _refusal(manager, method, path, f"{{{together}}}".encode())
        for name in names:
            if name not in refused:
                found[name, value[:60]] = await _faults(manager, method, path, f'{{"{name}":{value}}}'.encode())
    assert {what: faults for what, faults in found.items() if faults} == {}


def _queries(method: str, path: str) -> Sequence[str]:
    """Those of which the call has the parameter, and one of those that it refuses for that it has none."""
    there = {filled.replace("{name}", "j").replace("{id}", "j%40100%231").replace("{revision}", "12"): calls
             for filled, calls in document()["paths"].items()}  # fmt: skip
    if (call := there.get(path, {}).get(method.lower())) is None:
        return _QUERIES
    own = {parameter["name"] for parameter in call.get("parameters", ())}
    its, others = (
        [query for query in _QUERIES if (query.partition("=")[0] in own) is is_own] for is_own in (True, False)
    )
    return [*its, *others[:1]]


@pytest.mark.parametrize("path", ["/job/save", "/job/delete", "/job/kill"])
async def test_no_form_is_answered_with_words_of_python(manager: Managed, path: str) -> None:
    forms = [*_BODIES, b"name=%ff", b"name=%00", b"name=" + b"x" * 500, b"&".join([b"a=b"] * 200)]
    forms += [urlencode({"job": f'{{"command":{odd}}}'}).encode() for odd in _ODD]
    forms += [urlencode({"job": body}).encode() for body in _BODIES]
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    found = {form[:60]: faults for form in forms if (faults := await _faults(manager, "POST", path, form, **kind))}
    assert found == {}


async def test_no_query_header_or_path_is_answered_with_words_of_python(manager: Managed) -> None:
    found, methods = {}, set[str]()
    for method, path in every_call(manager):
        if method == "HEAD" or path == "/api/v1/events":  # of the one there are no words, the other has no end
            continue
        for query in _queries(method, path):
            found[method, path, query] = await _faults(manager, method, f"{path}?{query}", b"{}")
        for headers in _HEADERS if method in methods else (*_HEADERS, *_HEADERS_FOR_ALL):
            found[method, path, str(headers)] = await _faults(manager, method, path, b"{}", **headers)
        for odd in ("%ff", "%00", "%ed%a0%80", "x" * 500, "%7B", "..%2f"):
            for filled in ("/j", "/12", "/j%40100%231"):
                if filled in path:
                    there = path.replace(filled, f"/{odd}")
                    found[method, there, ""] = await _faults(manager, method, there, b"{}")
        methods.add(method)
    assert {call: faults for call, faults in found.items() if faults} == {}


async def test_no_outage_of_the_log_store_is_told_with_words_of_python(place: Place) -> None:
    async with managing(replace(place, log_store="mongodb://127.0.0.1:1"), mongodbConnectTimeout=300) as manager:
        ready = await manager.get("/readyz", verbose="")
        refused = await manager.http.get("/api/v1/runs/j@1%231")
        assert refused.status == 503
        texts = [*_texts(ready["checks"]["logStore"]), *_texts(ready["problems"]), *_texts(await refused.json())]
    assert [text for text in texts if _INTERNALS.search(_words(text)) or "Errno" in text] == []
    assert any("it cannot be reached: 127.0.0.1:1: connection refused" in text for text in texts), texts
