"""What a line of the log looks like, and what is never in it."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Iterator

import pytest

from common.process.logs import UnwaitingHandler, configure_logging

log = logging.getLogger("etcron.test")


class Printed(io.StringIO):
    """What has been logged."""

    def getvalue(self) -> str:
        for handler in logging.getLogger().handlers:
            handler.flush()
        return super().getvalue()


@pytest.fixture
def printed() -> Iterator[io.StringIO]:
    """What is logged; the root logger is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = Printed()
    configure_logging("info", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_an_event_is_one_line_with_its_fields(printed: io.StringIO) -> None:
    log.info("run\nended", extra={"action": "run_ended", "status": "success", "reason": 'exit "0"'})

    time, rest = printed.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'INFO    etcron.test  run\\nended  action=run_ended status=success reason="exit \\"0\\""\n'


def test_nothing_that_a_terminal_obeys_gets_into_a_line(printed: io.StringIO) -> None:
    log.warning("a\r\x1b[2Jb\u2028c", extra={"reason": "\x00", "by": "a \x9b31m\u202e", "what": "\x1b]0;x\x07"})

    line = printed.getvalue().removesuffix("\n")
    assert line.isprintable()
    assert line.endswith(r'a\r\x1b[2Jb\u2028c  reason=\x00 by="a \x9b31m\u202e" what=\x1b]0;x\x07')


@pytest.mark.usefixtures("printed")
def test_an_event_is_a_json_object_where_that_is_wanted() -> None:
    stream = Printed()
    configure_logging("info", "json", stream=stream)
    extra = {"action": "run_ended", "lease": 7587, "share": 0.5, "odd": float("nan"), "message_": "a\r\x1b[2J\nb"}
    try:
        raise ValueError("mongodb://u:hunter2@h")
    except ValueError:
        log.exception('said "no" to mongodb://u:hunter2@h/', extra=extra)
    (line,) = stream.getvalue().splitlines()
    assert "hunter2" not in line
    document = json.loads(line)
    assert document.pop("time").endswith("Z")
    assert document.pop("traceback").endswith("ValueError: mongodb://u:***@h")
    assert document == {
        "level": "error", "logger": "etcron.test", "message": 'said "no" to mongodb://u:***@h/', "action": "run_ended",
        "lease": 7587, "share": 0.5, "odd": "nan", "message_": "a\\r\\x1b[2J\nb",
    }  # fmt: skip


def test_what_is_below_the_level_is_left_out(printed: io.StringIO) -> None:
    log.debug("nothing")

    assert printed.getvalue() == ""


def test_a_password_in_a_uri_is_left_out(printed: io.StringIO) -> None:
    log.error("cannot reach mongodb://u:hunter2@h/db", extra={"uri": "mongodb://u:hunter2@h"})

    assert "hunter2" not in printed.getvalue()
    assert "u:***@h/db" in printed.getvalue()


def test_a_traceback_follows_indented(printed: io.StringIO) -> None:
    try:
        raise ValueError("mongodb://u:hunter2@h")
    except ValueError:
        log.exception("failed")

    first, *rest = printed.getvalue().splitlines()
    assert first.endswith("failed")
    assert all(line.startswith("    ") for line in rest)
    assert "hunter2" not in printed.getvalue()


def test_libraries_do_not_log_documents_when_debugging(printed: io.StringIO) -> None:
    configure_logging("debug", stream=printed)

    logging.getLogger("pymongo.command").debug("insert {...}")

    assert printed.getvalue() == ""


def test_whoever_logs_waits_for_no_reader_and_what_is_dropped_is_counted() -> None:
    reads, writes = os.pipe()
    with open(reads, encoding="utf-8") as reader, open(writes, "wb", buffering=0) as pipe:
        handler = UnwaitingHandler(lambda text: pipe.write(text.encode()), waiting_lines=100)
        for number in range(1000):
            handler.handle(logging.makeLogRecord({"msg": f"{number} {'x' * 1000}"}))
        written, dropped = list[int](), 0
        while len(written) + dropped < 1000:
            line = reader.readline()
            if told := re.search(r"([\d,]+) lines were dropped", line):
                dropped += int(told[1].replace(",", ""))
            else:
                written.append(int(line.split()[0]))
    assert written == sorted(set(written))
    assert dropped > 0
