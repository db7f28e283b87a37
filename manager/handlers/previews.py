"""What a preview of a schedule is asked with. Every mistake at once, each with its field and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.jobs.fields import TIMING
from common.jobs.job import JobSpec
from common.jobs.kinds import AnyText, Number
from common.jobs.reader import parse_timing
from common.jobs.reading import Faults

MAX_PREVIEW: Final = 100
DEFAULT_PREVIEW: Final = 5
_FIELDS: Final = (*TIMING, "name", "n")
_NAME: Final = AnyText(longest=1_000)
"""Any text: it is only what H takes its value from, and may still be being typed."""
_NUMBER: Final = Number(low=1, high=MAX_PREVIEW, whole=True, unit="fires")


def read_preview(document: Mapping[str, Any]) -> tuple[JobSpec, int]:
    """The schedule to be shown, as a job without a command, and how many fires; InvalidInputError."""
    faults = Faults()
    faults.refuse_unknown(document, _FIELDS, of="a preview")
    name, n = document.get("name"), document.get("n")
    if name is not None:
        name = faults.take("name", _NAME, name)
    spec = faults.take("", lambda whole: parse_timing(whole, name=name or ""), document)
    if n is not None:
        n = faults.take("n", _NUMBER, n)
    faults.check()
    assert spec is not None, "what was read without a fault is there"
    return spec, n or DEFAULT_PREVIEW
