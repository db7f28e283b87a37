"""When a job fires, in words."""

from __future__ import annotations

from typing import Any

import pytest

from common.jobs.reader import parse_timing
from common.words.job_words import job_words

PARIS = {"timezone": "Europe/Paris"}
WORDS: list[tuple[dict[str, Any], str]] = [
    ({"cronExpr": "0 30 2 * * MON-FRI *"}, "At 02:30, Monday through Friday"),
    ({"cronExpr": "*/7 * * * * * *"}, "At seconds 0 to 56 in steps of 7 of every minute"),
    ({"cronExpr": ["0 0 9 * * * *"]}, "At 09:00"),
    ({"cronExpr": ["0 0 9 * * * *", "0 0 12 * * MON *"]}, "At 09:00; at 12:00, only on Monday"),
    ({"cronExpr": ["*/7 * * * * * *", "0 0 12 * * * *"]}, "At seconds 0 to 56 in steps of 7 of every minute; at 12:00"),
    ({"every": "15m", "offset": "5m"}, "Every 15 minutes, 5 minutes past"),
    ({"every": "15m", "offset": "0s"}, "Every 15 minutes"),
    ({"every": "1s"}, "Every second"),
    ({"every": "60m"}, "Every hour"),
    ({"every": "1d"}, "Every day"),
    ({"every": "2w"}, "Every 2 weeks"),
    ({"every": "90d"}, "Every 90 days"),
    ({"every": "1h30m"}, "Every 1 hour 30 minutes"),
    ({"every": "25h1s"}, "Every 1 day 1 hour 1 second"),
    ({"after": "2s"}, "2 seconds after the last run ended"),
    ({"cronExpr": "@reboot", "broadcast": True}, "When its machine boots"),
    ({"after": "1m"}, "1 minute after the last run ended"),
    ({"at": "2026-12-24T18:00:00+01:00"}, "Once at 2026-12-24 17:00"),
    ({"at": "2026-12-24T18:00:00Z"} | PARIS, "Once at 2026-12-24 19:00"),
    ({"at": "2026-12-24T18:00:05"} | PARIS, "Once at 2026-12-24 18:00:05"),
    ({"every": "1h", "startAt": "2026-01-01T00:00", "endAt": "2026-12-31T23:59:59"} | PARIS,
     "Every hour, from 2026-01-01 00:00, until 2026-12-31 23:59:59"),
    ({"every": "1h", "calendar": {"exclude": ["12-25"]}}, "Every hour, not on December 25"),
    ({"every": "1h", "calendar": {"include": ["12-24/01-06", "2026-05-01/2026-05-03"]}},
     "Every hour, only on December 24 to January 6, 2026-05-01 to 2026-05-03"),
    ({"every": "1h", "calendar": {"exclude": ["01-01", "02-29", "2026-05-01", "12-25"]}},
     "Every hour, not on January 1, February 29, 2026-05-01 and 1 more entry"),
    ({"every": "1h", "calendar": {"exclude": ["01-01", "02-29", "03-01", "12-25", "12-26"]}},
     "Every hour, not on January 1, February 29, March 1 and 2 more entries"),
    ({"every": "1h", "jitterSeconds": 30}, "Every hour, up to 30 seconds later (jitter)"),
    ({"every": "1h", "jitterSeconds": 90}, "Every hour, up to 1 minute 30 seconds later (jitter)"),
]  # fmt: skip


CHINESE = [
    "在 02:30，星期一到星期五",
    "在每分钟的第 0 到 56（间隔 7）秒",
    "在 09:00",
    "在 09:00；在 12:00，仅在星期一",
    "在每分钟的第 0 到 56（间隔 7）秒；在 12:00",
    "每 15 分钟，错后 5 分钟",
    "每 15 分钟",
    "每秒",
    "每小时",
    "每天",
    "每 2 周",
    "每 90 天",
    "每 1 小时 30 分钟",
    "每 1 天 1 小时 1 秒",
    "上次运行结束后 2 秒",
    "机器启动时",
    "上次运行结束后 1 分钟",
    "在 2026-12-24 17:00 运行一次",
    "在 2026-12-24 19:00 运行一次",
    "在 2026-12-24 18:00:05 运行一次",
    "每小时，从 2026-01-01 00:00 起，到 2026-12-31 23:59:59 为止",
    "每小时，12 月 25 日除外",
    "每小时，仅在 12 月 24 日 至 1 月 6 日、2026-05-01 至 2026-05-03",
    "每小时，1 月 1 日、2 月 29 日、2026-05-01 及另外 1 项除外",
    "每小时，1 月 1 日、2 月 29 日、3 月 1 日 及另外 2 项除外",
    "每小时，最多随机延后 30 秒",
    "每小时，最多随机延后 1 分钟 30 秒",
]
"""The same, in the same order."""


@pytest.mark.parametrize(("fields", "words"), WORDS, ids=[words for _, words in WORDS])
def test_schedule_is_said_in_words(fields: dict[str, Any], words: str) -> None:
    assert job_words(parse_timing(fields)) == words


@pytest.mark.parametrize(("told", "chinese"), list(zip(WORDS, CHINESE, strict=True)), ids=[words for _, words in WORDS])
def test_schedule_is_said_in_chinese(told: tuple[dict[str, Any], str], chinese: str) -> None:
    fields, english = told
    assert job_words(parse_timing(fields), "zh-CN") == chinese
    assert job_words(parse_timing(fields), "tlh") == english
