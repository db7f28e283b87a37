"""Jobs to compare reader and schema on: the documentation's, each mistake that the tests know, and made-up ones."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from cli.manifests.files import read_manifests
from cli.manifests.yaml_text import read_documents
from tests.unit.test_job_reader import BAD, GOOD

ROOT = Path(__file__).resolve().parents[2]
Document = dict[str, Any]
T = TypeVar("T")

_GIVEN_OF_1000: Final = 66
_ODD_OF_1000: Final = 26
"""Of a field in a job: some 2.5 are as they should be, and 1.1 are not."""
_DEEP_OF_1000: Final = 21
"""Of these, so many are odd within an object that has members of its own."""

_TRIGGERS: Final[tuple[Document, ...]] = (
    {"cronExpr": "0 30 2 * * * *"}, {"cronExpr": ["@daily", "0 0 12 ? * MON-FRI *"]}, {"cronExpr": "H H * * *"},
    {"every": "15m"}, {"every": "1d", "offset": "5m"}, {"after": "30s"}, {"at": "2035-01-01T00:00"},
)  # fmt: skip
_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "name": ("a", "...", "A" * 128, "x.y-z_1"), "command": ("echo hello", ["echo", "", "a b"], "x" * 32_768),
    "timezone": ("UTC", "Europe/Berlin", "Asia/Kolkata"), "enabled": (True, False),
    "startAt": ("2030-01-01T00:00", "20300101T000000Z"), "endAt": ("2031-01-01T00:00:00.5+05:30", "2031-W01-1T10:00"),
    "calendar": ({"exclude": ["12-24/01-02"]}, {"include": ["02-29", "2030-05-01"]},
                 {"exclude": ["05-01"], "include": None}),
    "jitterSeconds": (0, 86_400), "overlap": ("skip", "allow", "queue", "replace"),
    "misfire": ({}, {"policy": "all", "limit": 100}, {"graceSeconds": 1, "windowSeconds": 0}, {"limit": None}),
    "retry": ({"limit": 3}, {"delaySeconds": 0.5, "backoff": 1, "jitter": 1}, {"onExitCodes": [0, 255]},
              {"otherWorker": True}),
    "timeoutSeconds": (0, 600, 0.25, 5.0, 366 * 86_400), "killGraceSeconds": (0, 3600, 1.5),
    "onWorkerLost": ("record", "rerun"), "lostAfterSeconds": ("never", 1, 60.5), "env": ({}, {"A": "b"}, {"_x": ""}),
    "secrets": ({}, {"PGPASSWORD": "pg/prod"}), "secretFiles": ({"F": "a.b-c_d/e"},),
    "workdir": ("/", "/srv/a b"), "user": ("www-data", "svc$"), "shell": ("/bin/bash",),
    "outputLimitBytes": (0, 8 * 1024 * 1024), "labels": ({"team/a": "x"}, {"0": "\n"}),
    "workers": ({"zone": "eu"}, {"gpu": ["a", ""]}), "broadcast": (True, False), "slots": (1, 1024),
    "priority": (-100, 100), "description": ("", "caf\N{LATIN SMALL LETTER E WITH ACUTE}\n" * 80),
    "links": ([], [{"title": "", "url": "http://a"}, {"title": "Runbook", "url": "https://wiki.example.com/a?b#c"}]),
    "notify": ([], [{"to": "ops"}, {"to": "x.y", "on": ["failed", "output"], "after": 100}, {"to": "a", "on": None}]),
    "warnAfterSeconds": (0, 0.5), "lateAfterSeconds": (0, 60), "silentAfterSeconds": (0, 366 * 86_400),
    "suspiciousBelowSeconds": (0, 5.0),
}  # fmt: skip
_ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 5, 5.0, 1.5, 101, 1025, 86_401, 366 * 86_400 + 1, 10**30, 1e300, "", " ", "\x1f",
    "\ufeff", "x",
    "x\n", "never", "skip", "5m", "0s", "400d", "1h1w", "9999999999s", "/x", "/x\0", "/" + "y" * 4094,
    "/" + "y" * 4095, "Mars",
    "@Daily", "61 * * * * * *", "0 0 0 30 2 * *", "* * * * * *", "2030-02-30T00:00", "2200-01-01T00:00",
    "1969-12-31T23:59-05:00",
    "12-24", "02-30", "12-25/12-24", "2026-02-02/2026-02-01", [], [[]], ["x"], ["x", "x"], [1, 1], [0, 256], [None],
    ["12-24"], {},
    {"a": 1}, {"": "x"}, {"a b": "x"}, {"ETCRON_X": "y"}, {"A": None}, {"limit": 101}, {"limit": 1.0}, {"unknown": 1},
    {"exclude": []},
    {"exclude": ["01-01/12-31"]}, {"exclude": ["02-30", 5]}, {"delaySeconds": 9, "maxDelaySeconds": 1},
    {"onExitCodes": [1, 1, 300]},
    {"x" * 129: "y"}, {"a": ["b", 5]}, {"a": "z" * 4097},
)  # fmt: skip
_MEMBERS: Final = dict.fromkeys(
    ("misfire", "retry"),
    ("policy", "graceSeconds", "windowSeconds", "limit", "delaySeconds", "backoff", "maxDelaySeconds", "jitter",
     "onExitCodes", "otherWorker"),
)  # fmt: skip


def known() -> Iterator[Document]:
    """Valid jobs of the documentation and the examples; then each mistake that the tests of the reader know."""
    yield from (dict(one.document) for one in read_manifests([str(ROOT / "examples" / "jobs")]))
    text = (ROOT / "docs" / "guides" / "jobs.md").read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        yield from (dict(one) for one in read_documents(block))
    for _, fields, *_ in BAD:
        yield GOOD | fields


def made_up(number: int, *, seed: int = 1) -> Iterator[Document]:
    """So many jobs, always the same: some fields, of which some are not what they should be.

    What a job has of a field hangs on its number and that field alone: a new field changes those jobs that have it.
    """
    names = dict.fromkeys([*_VALUES, "cronExpr", "every", "offset", "after", "at"], ()) | _VALUES
    for job_number in range(number):
        job: Document = {"name": "job", "command": "true", **_drawn(f"{seed} {job_number}", _TRIGGERS)}
        for name, values in names.items():
            draw = f"{seed} {job_number} {name}"
            chance = zlib.crc32(draw.encode()) % 1000
            if chance < _ODD_OF_1000:
                odd = _drawn(f"{draw} odd", _ODD)
                job[name] = {_drawn(draw, _MEMBERS[name]): odd} if name in _MEMBERS and chance < _DEEP_OF_1000 else odd
            elif chance < _ODD_OF_1000 + _GIVEN_OF_1000 and values:
                job[name] = _drawn(draw, values)
        yield job


def _drawn(draw: str, values: Sequence[T]) -> T:
    return values[zlib.crc32(f"{draw} value".encode()) % len(values)]
