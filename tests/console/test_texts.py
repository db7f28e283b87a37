"""The console's words: every text is in every catalog, every text of a catalog is used, none is written elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from common.jobs.schema import job_schema
from manager.console.pages import LANGUAGES

WEBROOT = Path(__file__).parents[2] / "webroot"
SCRIPTS = sorted(path for path in (WEBROOT / "static/js").rglob("*.js"))
TEMPLATES = sorted((WEBROOT / "templates").glob("*.html"))
CATALOGS = {
    language: json.loads((WEBROOT / f"static/i18n/{language}.json").read_text(encoding="utf-8"))
    for language in LANGUAGES
}
PLURALS = {"en": ("one", "other"), "zh-CN": ("other",)}
_FORM = re.compile(r"\.(one|other)$")
_LITERALS = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|`((?:[^`\\]|\\.)*)`')
_COMMENTS = re.compile(r"/\*.*?\*/|(?<![:\"'`\\])//[^\n]*", re.DOTALL)
SAID = ("title", "aria-label", "placeholder", "alt", "label")
"""The attributes whose values readers see or hear."""
# Words that are the same in every language: the product, what others are called, units of versions.
_NAMES = {"etcron", "Python", "etcd"}


def without_forms(catalog: dict[str, str]) -> set[str]:
    return {_FORM.sub("", key) for key in catalog}


def words_of_a_job(properties: dict[str, Any], outer: str = "field") -> Iterator[str]:
    """The keys of what the definition of a job says in English, so that each other catalog has to say it."""
    for name, field in properties.items():
        key, shown = f"{outer}.{name}", field["x-form"]
        inner: dict[str, Any] = next((one["properties"] for one in field.get("anyOf", []) if "properties" in one), {})
        yield key
        if inner and "input" not in shown:
            yield from words_of_a_job(inner, key)
            continue
        if shown.get("hint", field["description"]):
            yield f"{key}.hint"
        lists = (one["items"].get("properties", {}) for one in field.get("anyOf", []) if "items" in one)
        yield from words_of_a_job(next(lists, {}), key)
        yield from (f"{key}.{one}" for one in ("unset", "absent") if one in shown)
        yield from (f"{key}.{value}" for value in shown.get("choices", ()))
        yield from (f"{key}.{value}.means" for value in shown.get("means", ()))


def keys_asked_for() -> set[str]:
    """Every key that a script or a template asks for; `a.*` where the rest is a code."""
    keys: set[str] = set()
    for path in (*SCRIPTS, *TEMPLATES):
        text = path.read_text(encoding="utf-8")
        keys.update(re.findall(r"""\bt\(\s*["']([\w. ]+)["']\s*[,)]""", text))
        keys.update(re.sub(r"\$\{[^}]*\}", "*", key) for key in re.findall(r"\bt\(`([^`]+)`", text))
        keys.update(_joined(parts) for parts in re.findall(r't\(("[\w.]+" ~ (?:[^()]|\([^()]*\))+)\)', text))
        keys.update(f"{words}.*" for words in re.findall(r'\bword\("(\w+)"', text))
        # One of two, by a condition; lists of [key, value] for facts.
        keys.update(re.findall(r'[?:]\s*"([a-z]\w*\.[\w.]+)"', text))
        keys.update(re.findall(r'^\s*\["([a-z]\w*\.[\w.]+)", ', text, re.MULTILINE))
        keys.update(f"column.{key}" for key in re.findall(r'\{ key: "(\w+)"', text))
        live = re.findall(r'"(?:bad|warn|ok|idle)", [`"](live\.[^`"]+)[`"]', text)
        keys.update(re.sub(r"\$\{[^}]*\}", "*", key) for key in live)
    return keys


def _joined(parts: str) -> str:
    """A template's `"a." ~ code ~ ".b"` as `a.*.b`."""
    return "".join(part.strip('"') if part.startswith('"') else "*" for part in parts.split(" ~ "))


def pattern_of(key: str) -> re.Pattern[str]:
    return re.compile(re.escape(key).replace(r"\*", ".+"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_in_every_catalog(language: str) -> None:
    catalog = CATALOGS[language]
    of_a_job = set() if language == "en" else set(words_of_a_job(job_schema()["properties"]))
    assert without_forms(catalog) == without_forms(CATALOGS["en"]) | of_a_job
    for key, text in catalog.items():
        assert text.strip(), key
    counted = {_FORM.sub("", key) for key in CATALOGS["en"] if _FORM.search(key)}
    for key in counted:
        assert {form for form in ("one", "other") if f"{key}.{form}" in catalog} == set(PLURALS[language]), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_have_the_same_places_for_values(language: str) -> None:
    def places(catalog: dict[str, str], key: str) -> set[str]:
        return set(re.findall(r"\{(\w+)\}", catalog.get(key) or catalog[f"{key}.other"]))

    for key in without_forms(CATALOGS["en"]):
        assert places(CATALOGS[language], key) - {"n"} == places(CATALOGS["en"], key) - {"n"}, key


def test_chinese_has_its_own_punctuation() -> None:
    messages = json.loads((WEBROOT / "static/i18n/messages.json").read_text(encoding="utf-8"))
    texts = [*CATALOGS["zh-CN"].values(), *(message["zh-CN"] for message in messages.values())]
    assert [text for text in texts if re.search(r"[\u4e00-\u9fff][,;:?!(](?!\d)", text)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_reasons_of_several_workers_can_be_told_apart(language: str) -> None:
    """The texts after which workers are named one by one end as the page looks for."""
    messages = json.loads((WEBROOT / "static/i18n/messages.json").read_text(encoding="utf-8"))
    ends = tuple(CATALOGS[language]["apart.after"].split("|"))
    for code in ("no-taker", "no-worker-took-it"):
        assert messages[code][language].partition("{why")[0].endswith(ends), code


def test_every_key_that_is_asked_for_exists() -> None:
    known = without_forms(CATALOGS["en"]) | set(words_of_a_job(job_schema()["properties"]))
    missing = [key for key in keys_asked_for() if not any(pattern_of(key).fullmatch(one) for one in known)]
    assert missing == []


def test_every_text_is_used() -> None:
    wanted = [pattern_of(key) for key in keys_asked_for()]
    assert [key for key in without_forms(CATALOGS["en"]) if not any(one.fullmatch(key) for one in wanted)] == []


class _Words(HTMLParser):
    """Gathers what a reader would see or hear of a template."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in SAID]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_text_is_written_in_a_template(template: Path) -> None:
    parser = _Words()
    parser.feed(re.sub(r"\{[{%#].*?[}%#]\}", " ", template.read_text(encoding="utf-8"), flags=re.DOTALL))
    words = {word for text in parser.found for word in re.findall(r"[^\W\d_]{2,}", text)}
    assert words - _NAMES == set()


def _texts_in(script: Path) -> Iterator[str]:
    for groups in _LITERALS.findall(_COMMENTS.sub("", script.read_text(encoding="utf-8"))):
        yield next(filter(None, groups), "")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(WEBROOT)))
def test_no_text_is_written_in_a_script(script: Path) -> None:
    """A text is what has a capital at its beginning and goes on in words, or ends like a sentence."""
    sentence = re.compile(r"[A-Z][a-z]+ [a-z]|[a-z] [a-z]+[.!?:]$|^[A-Z][a-z]{3,}$")
    allowed = {*_NAMES, "Escape", "Enter", "Event", "Content-Type", "application/json"}
    found = {text for text in _texts_in(script) if sentence.search(text)} - allowed
    assert {text for text in found if not text.startswith(("no element", "INPUT"))} == set()
