"""What the words about a schedule are made of, one table a language. Its names are those of the console's languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT: Final = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """Sentences with gaps, and names, in one language."""

    units: Mapping[str, tuple[str, str]]
    """How one of each unit of time is counted, and how many are."""
    one: Mapping[str, str]
    """``every`` with a single unit: "Every {}" does not count it."""
    every: str
    offset: str
    after: str
    boot: str
    once: str
    since: str
    until: str
    jitter: str
    only_on: str
    not_on: str
    date: str
    """A day of every year: ``month`` is its name, ``number`` its number."""
    months: Sequence[str]
    """January first."""
    between: str
    """Two ends of a range of dates."""
    date_separator: str
    more: tuple[str, str]
    """What follows the dates that are told: one that is not, and many that are not."""
    separator: str
    """Between the parts of the whole."""
    expressions: str
    """Between several expressions."""
    zero: str


_EN_UNITS: Final = ("week", "day", "hour", "minute", "second")
_ZH_UNITS: Final = {"week": "周", "day": "天", "hour": "小时", "minute": "分钟", "second": "秒"}

ENGLISH: Final = Phrases(
    units={unit: (f"{{:,}} {unit}", f"{{:,}} {unit}s") for unit in _EN_UNITS},
    one={unit: f"Every {unit}" for unit in _EN_UNITS},
    every="Every {}",
    offset="{} past",
    after="{} after the last run ended",
    boot="When its machine boots",
    once="Once at {}",
    since="from {}",
    until="until {}",
    jitter="up to {} later (jitter)",
    only_on="only on {}",
    not_on="not on {}",
    date="{month} {day}",
    months=(
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ),
    between="{} to {}",
    date_separator=", ",
    more=(" and {:,} more entry", " and {:,} more entries"),
    separator=", ",
    expressions="; ",
    zero="0 seconds",
)  # fmt: skip

CHINESE: Final = Phrases(
    units={unit: (f"{{:,}} {name}", f"{{:,}} {name}") for unit, name in _ZH_UNITS.items()},
    one={unit: f"每{name}" for unit, name in _ZH_UNITS.items()},
    every="每 {}",
    offset="错后 {}",
    after="上次运行结束后 {}",
    boot="机器启动时",
    once="在 {} 运行一次",
    since="从 {} 起",
    until="到 {} 为止",
    jitter="最多随机延后 {}",
    only_on="仅在 {}",
    not_on="{}除外",
    date="{number} 月 {day} 日",
    months=("一月", "二月", "三月", "四月", "五月", "六月", "七月", "八月", "九月", "十月", "十一月", "十二月"),
    between="{} 至 {}",
    date_separator="、",
    more=(" 及另外 {:,} 项", " 及另外 {:,} 项"),
    separator="，",
    expressions="；",
    zero="0 秒",
)

PHRASES: Final[Mapping[str, Phrases]] = {DEFAULT: ENGLISH, "zh-CN": CHINESE}
"""By the tags of the languages."""
