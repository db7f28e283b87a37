"""What etcron says has a code: the table of messages, and the code that writes them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.crontab.jobs import translate
from common.crontab.lines import read_lines
from common.words.messages import LONGEST, Messages, Said
from manager.console.pages import LANGUAGES
from manager.http.errors import MESSAGES
from tests.support.literals import assigned, texts_of
from tests.support.sources import NODES, ROOT, TREES

TABLE: dict[str, dict[str, str]] = json.loads((ROOT / "webroot/static/i18n/messages.json").read_text(encoding="utf-8"))
_GAP = re.compile(r"\{(\w+)(?::text)?\}")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
PLURAL = {"s", "runs"}
"""Gaps of endings and words that a language without a plural leaves out."""

ANSWERING = ("manager/api", "manager/http", "manager/use_cases", "manager/views", "manager/watch", "manager/access",
             "common/crontab", "common/jobs", "common/access", "common/notices")  # fmt: skip
NOT_ANSWERED = {
    "manager/access/oidc": "what is wrong with a provider's answer is for the log: the console is told a code",
    "manager/access/proxy.py": "a proxy that is set up wrong",
    "manager/http/unix_socket.py": "of the start", "manager/http/https.py": "of the start",
    "manager/access/recovery.py": "of `etcron admin`",
}  # fmt: skip
SAYING = {"Problem", "wrong", "RequestError", "NotFoundError", "ConflictError", "StaleError", "ForbiddenError",
          "LoginNeededError", "UnavailableError", "RefusedError",
          "OvertakenError", "TooManyJobsError", "ClockOffError"}  # fmt: skip


def test_each_message_is_said_in_every_language_with_the_same_values() -> None:
    for code, texts in TABLE.items():
        assert texts.keys() == LANGUAGES.keys(), code
        english = set(_GAP.findall(texts["en"]))
        for language, text in texts.items():
            assert set(_GAP.findall(text)) <= english, (code, language)
            assert text.strip(), (code, language)
        if re.search(r"[a-z]{3} [a-z]{2}", _GAP.sub("", texts["en"])):
            assert _CHINESE.search(texts["zh-CN"]), code
    english_texts = [texts["en"] for texts in TABLE.values()]
    assert len(english_texts) == len(set(english_texts)), "one code for one text"


def test_message_is_found_by_its_text_with_its_values() -> None:
    for code, texts in TABLE.items():
        values = {name: f"V{number}" for number, name in enumerate(dict.fromkeys(_GAP.findall(texts["en"])))}
        found = MESSAGES.of(_GAP.sub(lambda gap: values[gap[1]], texts["en"]))  # noqa: B023 - called at once
        assert found is not None
        assert (found.code, dict(found.params)) == (code, values)


def test_template_that_says_most_by_itself_counts() -> None:
    messages = Messages({"any": "{what}: {why}", "lost": "lost: {why}"})
    assert messages.of("lost: a worker") == Said(code="lost", params={"why": "a worker"})
    assert messages.of("found: a: b") == Said(code="any", params={"what": "found", "why": "a: b"})
    assert messages.of("lost") is None


def test_text_of_a_user_that_never_ends_is_no_message() -> None:
    assert Messages({"any": "{a}: {b}: {c}: {d}!"}).of(": " * LONGEST) is None


def _said_in(path: Path) -> Iterator[tuple[int, str]]:
    tree = TREES[path]
    outer = {name: values for name, values in assigned(ast.Module(tree.body, [])).items() if name.isupper()}
    for function in (node for node in NODES[path] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        known = outer | assigned(function)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if not isinstance(call.func, ast.Name) or call.func.id not in SAYING:
                continue
            given = [*call.args, *(one.value for one in call.keywords if one.arg in ("message", "remedy"))]
            for argument in given:
                yield from ((call.lineno, text) for text in texts_of(argument, known))


def _unlisted(text: str) -> Iterator[str]:
    """What of it is not in the table: all of it, or the texts in its gaps. One with a value says nothing by itself."""
    if not re.search("[a-z]", text.replace("X1", "")):
        return
    said = MESSAGES.of(text)
    if said is None:
        yield text
        return
    for name in re.findall(r"\{(\w+):text\}", TABLE[said.code]["en"]):
        if " " in said.params[name]:
            yield from _unlisted(said.params[name])


def _files() -> list[Path]:
    found = [path for folder in ANSWERING for path in TREES if path.is_relative_to(folder)]
    return [path for path in found if not str(path).startswith((*NOT_ANSWERED,))]


@pytest.mark.parametrize("path", _files(), ids=str)
def test_every_message_that_a_manager_answers_with_is_in_the_table(path: Path) -> None:
    unlisted = [f"{line}: {missing}" for line, text in _said_in(path) for missing in _unlisted(text)]
    assert unlisted == [], "webroot/static/i18n/messages.json has each with its code, in every language"


@pytest.mark.parametrize("system", [False, True])
def test_whatever_is_said_of_a_line_of_a_crontab_is_in_the_table(system: bool) -> None:
    text = """
MAILTO=ops@example.com
MAILTO=
MAILFROM=x
LOGNAME=x
SHELL=
SHELL=/bin/fish
HOME=/srv
TZ=Asia/Tokyo
a-b=c
A=b
RANDOM_DELAY=many
RANDOM_DELAY=0
RANDOM_DELAY=5
* * * * * root x\\% \\\\y
* * * * * root x%y
SHELL=/bin/sh
* * * * * root x%y
* * * * * root %y
* * * * * root x\\\\%y
* * * * * 5 x
* * * *
@daily
@reboot root x
5/10 * * * * root x
61 * * * * root x
CRON_TZ=Asia/Tokyo
CRON_TZ=Mars
@daily root x
@daily root y"""
    account = translate(read_lines(text, system=system), timezone="UTC", labels={})
    notes = [note for one in account for note in one.notes]
    assert len(notes) > 20
    assert [missing for note in notes for missing in _unlisted_part(note)] == []


def _unlisted_part(text: str) -> Iterator[str]:
    """What of it is not in the table; a schedule that is refused is said as two texts."""
    if MESSAGES.of(text) is None:
        for part in text.split("; "):
            yield from _unlisted(part)
    else:
        yield from _unlisted(text)
