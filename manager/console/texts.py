"""The console's words, from the catalogs in ``static/i18n``: the same files that the scripts in the browser read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from aiohttp import web

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "zh-CN": "简体中文"}
"""By their tags, each in its own words; the first one is for everybody else."""
COOKIE: Final = "etcron_language"


class Texts:
    """All catalogs of a webroot, read once."""

    def __init__(self, static: Path) -> None:
        self._catalogs: dict[str, dict[str, str]] = {
            language: json.loads((static / "i18n" / f"{language}.json").read_text(encoding="utf-8"))
            for language in LANGUAGES
        }

    def of(self, language: str) -> Callable[[str], str]:
        """What looks a text up by its key; KeyError where the catalog lacks it."""
        return self._catalogs[language].__getitem__


def language_for(chosen: str | None, accepted: str) -> str:
    """The user's choice; else the first language of the ``Accept-Language`` header that we have; else English."""
    if chosen is not None and chosen in LANGUAGES:
        return chosen
    for wish in accepted.split(","):
        primary = wish.split(";")[0].strip().split("-")[0].casefold()
        for language in LANGUAGES:
            if language.split("-")[0] == primary:
                return language
    return next(iter(LANGUAGES))


def language_of(request: web.Request) -> str:
    """The language of whoever asks: English where the request says nothing of it."""
    return language_for(request.cookies.get(COOKIE), request.headers.get("Accept-Language", ""))
