"""Reasons and errors of runs, fires, workers and alerts, whoever writes them: the console says each in Chinese.

Found in the code: what is given as a reason, returned by a function that is asked for one, or raised where a run is
started. Then the console's own scripts say it, as they do on a page.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.literals import assigned, texts_of
from tests.support.scripts import evaluate
from tests.support.sources import NODES, TREES

FOLDERS = ("worker/", "common/protocol/", "common/clocks/", "common/notices/", "manager/notices/", "manager/views/",
           "manager/watch/", "manager/cluster/")  # fmt: skip
GIVEN = {"reason", "why", "err", "problem", "not_accepting", "late", "error"}
ASKED = re.compile(r"why|reason|fault|refus|in_words|off_by|admit")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SAYING = {"missed", "lost", "killed", "set", "_event", "_admit"}
RAISING = {
    *(
        f"worker/{name}.py"
        for name in ("launcher/accounts", "launcher/unstartable", "launcher/link", "launch", "secrets")
    ),
    *(f"worker/{name}.py" for name in ("record/spool", "run/executor", "run/spawner")),
    *(f"manager/notices/{name}.py" for name in ("webhook", "email", "ways", "command")),
}
NOT_SHOWN = {
    "notice X1": "the note of a run that a message has asked for",
    "its key in etcd cannot be read": "why an administrator drained: a user's text",
    "is X1": "of an input, whose test is another one", "is no URL": "likewise", "has no host": "likewise",
    "it has no mark that lies ahead": "likewise", "its mark is X1, which is not ahead": "likewise",
    "can lose committed writes in a crash": "a part of what is said", "is past its support": "likewise",
    "the job's mark lies there, as somebody's clock was ahead": "likewise", "the spool's disk is full (X1)": "likewise",
    "the spool's disk hangs (nothing could be written for X1 s)": "likewise",
    "it has no session with etcd": "of the metrics port", "its session with etcd is not confirmed": "likewise",
    "its clock is off": "of the log", "its disk takes no records": "likewise",
    "kill of": "of the log", "no free slot": "of the log",
    "nothing starts here now": "of the log", "a list of texts is needed": "of a file of secrets, for the log",
    "a rule has unknown members: X1": "likewise", "unknown members: X1": "likewise",
    "X1 was allowed to start until X1": "it is handed on", "X1 was not to start before X1": "it is tried again",
    "it was past its limit when it was to be executed": "it is handed on", "the launcher ended": "it is tried again",
    "the wall clock went back behind its time": "it is tried again",
    "not from a launcher: X1": "a fault of the program",
    "its run has not waited for it": "likewise", "X1 is running already": "likewise",
    "a session was opened": "of the log", "the membership changed": "likewise", "the clock jumped": "likewise",
    "decides again": "likewise", "etcd was out of reach": "likewise", "damaged from here on": "likewise",
    "its file is gone, with all from here on": "likewise", "it does not answer": "of a guardian, for the log",
    "it does not listen": "likewise", "it has ended": "likewise",
    "for a reason that nobody foresaw: X1": "a part of what is said",
    "the executor is closed": "of a worker that stops", "the spool is closed: its worker stops": "likewise",
}  # fmt: skip
SAYS = """
const { inWords } = await js("said.js"), { reasonIn, whyOf } = await js("verdicts.js");
const each = TEXTS.map((text) => ({
  missed: { reason: text, verdict: "missed" }, failed: { err: text, status: "failed" }, alert: { reason: text },
}));
await inWords(each);
return each.map(({ missed, failed, alert }) => [whyOf(missed), whyOf(failed), reasonIn(alert.reason)]);
"""
_COMMANDS = re.compile(r"`[^`]*`|\([^)]*\)|etcron( [a-z]+)+")
_ENGLISH = re.compile(r"[a-z]{3,} [a-z]{2,}", re.IGNORECASE)


@cache
def _places() -> Mapping[str, frozenset[int]]:
    """By the name of a function: where it is given a reason by place."""
    found: dict[str, frozenset[int]] = {}
    for function in (one for path in _paths() for one in NODES[path] if isinstance(one, FUNCTIONS)):
        names = [one.arg for one in function.args.args if one.arg not in ("self", "cls")]
        places = frozenset(place for place, name in enumerate(names) if name in GIVEN)
        found[function.name] = found.get(function.name, frozenset()) | places
    return found


def _paths() -> Iterator[Path]:
    return (path for path in TREES if str(path).startswith(FOLDERS))


def _given(function: ast.AST, name: str, *, raises: bool) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield from (one.value for one in node.keywords if one.arg in GIVEN)
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            places = range(len(node.args)) if called in SAYING else _places().get(called, ())
            yield from (node.args[place] for place in places if place < len(node.args))
        elif isinstance(node, ast.Assign):
            names = {getattr(one, "id", getattr(one, "attr", "")) for one in node.targets}
            yield from [node.value] if any(re.fullmatch("_?(fault|reason|why)", one) for one in names) else []
        elif isinstance(node, ast.Raise) and raises and isinstance(node.exc, ast.Call):
            yield from node.exc.args
        elif isinstance(node, ast.Return | ast.Yield) and node.value is not None and (raises or ASKED.search(name)):
            value = node.value
            yield from (
                value.elts if isinstance(value, ast.Tuple) else value.args if isinstance(value, ast.Call) else [value]
            )


def emitted() -> dict[str, str]:
    """The texts, with ``X1`` for what is known only when they are said; and where each is written."""
    found: dict[str, str] = {}
    for path in _paths():
        of, tree = str(path), TREES[path]
        constants = assigned(ast.Module([one for one in tree.body if isinstance(one, ast.Assign | ast.AnnAssign)], []))
        for function in (one for one in NODES[path] if isinstance(one, FUNCTIONS)):
            known = constants | assigned(function)
            for value in _given(function, function.name, raises=of in RAISING):
                for text in texts_of(value, known):
                    if _ENGLISH.search(text.replace("X1", "")) and text not in NOT_SHOWN:
                        found.setdefault(text, f"{of}:{value.lineno}")
    return found


def test_every_reason_and_error_that_the_code_can_emit_is_said_in_chinese() -> None:
    texts = emitted()
    assert len(texts) > 100, "they are found"
    said = evaluate(SAYS.replace("TEXTS", json.dumps(list(texts))), language="zh-CN")
    left = {
        f"{texts[text]}: {text}": ways
        for text, ways in zip(texts, said, strict=True)
        if all(_ENGLISH.search(_COMMANDS.sub("", way)) for way in ways)
    }
    assert left == {}, "webroot/static/i18n/messages.json has each with its code, in every language"


@pytest.mark.parametrize(
    ("status", "said", "error", "english", "chinese"),
    [
        ("killed", {"reason": "worker shutdown"}, "worker shutdown", "its worker shut down", "其工作节点已关闭"),
        ("lost", {"reason": "given up by al: gone"}, "given up by al", "given up by al", "由 al 放弃"),
        ("missed", {"reason": "late"}, "late", "no worker could start it before its start deadline",
         "没有工作节点能在启动期限内启动它"),
        ("failed", {"exitCode": 3}, "exit status 3", "exit status 3", "退出状态 3"),
        ("failed", {"err": "given up by al: gone"}, "given up by al: gone",
         "given up by al: gone", "由 al 放弃\uff1agone"),
        ("failed", {}, "no such file", "no such file", "no such file"),
        ("lost", {"reason": "worker gone"}, "worker gone", "its worker is gone", "其工作节点已离线"),
        ("killed", {"reason": "it hangs"}, "", "", ""),
    ],
)  # fmt: skip
def test_titles_of_groups_are_said_in_the_readers_language(
    status: str, said: dict[str, Any], error: str, english: str, chinese: str
) -> None:
    group = {"status": status, "error": f"{status}: {error}" if error else status, **said}
    script = f"""const {{ inWords }} = await js("said.js"), {{ causeOf }} = await js("verdicts.js");
    return causeOf(await inWords({json.dumps(group)}));"""
    assert [evaluate(script), evaluate(script, language="zh-CN")] == [english, chinese]
