"""cron-descriptor's Chinese, made whole: it leaves months and weekdays in English, and drops what it cannot say."""

from __future__ import annotations

import re
from typing import Final

from common.words.phrases import CHINESE, ENGLISH

_WEEKDAYS: Final = {
    "Sunday": "星期日", "Monday": "星期一", "Tuesday": "星期二", "Wednesday": "星期三", "Thursday": "星期四",
    "Friday": "星期五", "Saturday": "星期六",
}  # fmt: skip
_NAMES: Final = dict(zip(ENGLISH.months, CHINESE.months, strict=True)) | _WEEKDAYS
_NAME = re.compile("|".join(_NAMES))
_NTH = re.compile(r"在 (第.个[^ ,]+) 每月")
_LIST = re.compile(r"(?<!, )(?<![^\s,])(?:[^\s,]+, )*[^\s,]+,? 和 ")
_BETWEEN_CHARACTERS = re.compile(r"(?<=[\u4e00-\u9fff]) +(?=[\u4e00-\u9fff])")
_UNTOLD = re.compile(r"L-[0-9]+")


def is_told(day: str) -> bool:
    """Whether there are Chinese words for this day of the month: the library has none for days before the last."""
    return _UNTOLD.fullmatch(day) is None


def mended(words: str) -> str:
    """The library's words with every name in Chinese, and its lists and clauses set apart as Chinese does."""
    words = _NAME.sub(lambda name: _NAMES[name.group()], words)
    words = _NTH.sub(r"每月的\1", words)
    words = _LIST.sub(lambda found: found.group().replace(", 和 ", " 和 ").replace(", ", "、"), words)
    words = _BETWEEN_CHARACTERS.sub("", words)
    return re.sub(r"(?<! ) *, *", "，", words).strip()
