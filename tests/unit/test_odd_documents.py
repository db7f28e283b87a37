"""A document in the log store that somebody else has written is read, whatever is in it: a page has others, too."""

from __future__ import annotations

from bson import DatetimeMS, decode, encode

from common.json_text import dumps
from common.runlog.client import open_client


def test_dates_beyond_pythons_and_text_that_is_no_utf_8_are_read() -> None:
    raw = encode({"startTime": DatetimeMS(10**16), "jobName": "x"}).replace(b"x\0", b"\xff\0")
    found = decode(raw, open_client("mongodb://127.0.0.1:1", 100).codec_options)
    assert found["jobName"] == "\N{REPLACEMENT CHARACTER}"
    assert str(10**16) in dumps(found)
