"""What commands print into a pipe, their errors and their statuses, byte for byte: scripts read them."""

from __future__ import annotations

import difflib
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main

_TRANSCRIPT = Path(__file__).with_suffix(".txt")
_AT_MS = 1_774_749_600_000
_RUN = {
    "id": f"backup@{_AT_MS}#1", "jobName": "backup", "state": "finished", "status": "failed", "err": "exit status 3",
    "planTime": _AT_MS, "startTime": _AT_MS + 12, "endTime": _AT_MS + 75_012, "worker": "worker-1", "attempt": 1,
    "labels": {"team": "ops"}, "output": "one\n\ttwo \x1b[31mred\x1b[0m\n",
}  # fmt: skip
_OTHER_RUN = {
    "id": f"每晚@{_AT_MS}", "jobName": "每晚", "status": "missed", "reason": "late\nby far", "count": 7,
    "planTime": _AT_MS,
}  # fmt: skip
_SPEC = {
    "name": "backup", "command": "/usr/local/bin/backup --full", "cronExpr": "0 30 2 1 1 * 2090", "enabled": True,
    "env": {"LEVEL": "debug"}, "timeoutSeconds": 600,
}  # fmt: skip
_JOB = {
    "name": "backup", "state": "enabled", "words": "At 02:30", "spec": _SPEC, "revision": 41, "savedMs": _AT_MS,
    "savedBy": "api 127.0.0.1", "nextFire": {"local": "2026-03-29T03:00:00+02:00", "note": "the clocks jump"},
    "lastResult": _RUN, "lastRun": {**_RUN, "runId": _RUN["id"]},
    "running": [{"id": "backup@r-9", "state": "running", "worker": "worker-2"}], "warnings": ["it overlaps itself"],
}  # fmt: skip
_PAUSED = {
    "name": "每晚", "state": "paused", "words": None, "spec": {**_SPEC, "name": "每晚", "enabled": False},
    "revision": 7, "paused": {"sinceMs": _AT_MS, "by": "ops", "reason": "the disk\nis full"}, "problem": "no zone",
}  # fmt: skip
_WORKER = {
    "name": "worker-1", "state": "accepting", "slots": 4, "host": "host-1", "address": "10.0.0.1", "sinceMs": _AT_MS,
    "version": "0.1.0", "clockOffsetMs": -12, "session": "1a", "drained": {"by": "ops", "reason": "kernel"},
    "beat": {"running": 2, "waiting": 0, "unsentRecords": 1, "wallMs": 1},
}  # fmt: skip
_FIRES = [
    {"planTime": _AT_MS, "verdict": "missed", "reason": "late", "count": 3, "rangeEndTime": _AT_MS + 60_000},
    {**_RUN, "verdict": "failed", "runId": _RUN["id"]},
    {"planTime": _AT_MS, "verdict": "planned", "takers": ["worker-1", "worker-2"]},
]
_COUNTS = {"runs": 3, "success": 1, "failed": 2, "timeout": 0, "killed": 0, "lost": 0, "skipped": 4, "missed": 0}
_DAY = {"day": "2026-03-29", **_COUNTS, "averageDurationMs": 1500, "maxDurationMs": 90_000}
_CHANGED = {"changed": True, "job": _JOB, "before": {**_SPEC, "timeoutSeconds": 60}, "warnings": ["both day fields"]}
_VERSION = {
    "revision": 41, "savedMs": _AT_MS, "savedBy": "api", "action": "save", "changed": ["env", "command"],
    "spec": {**_SPEC, "command": "true"},
}  # fmt: skip
_INVALID = {
    "code": "invalid", "title": "bad", "errors": [
        {"field": "cronExpr", "message": "minute '61' is outside 0 to 59", "remedy": "write 0-59"},
        {"field": "overlop", "message": "there is no such field", "remedy": "did you mean overlap?"},
    ],
}  # fmt: skip
_ENTRY = {
    "chain": "host.ab", "seq": 7, "ms": _AT_MS, "who": "alice", "via": "session", "address": "10.0.0.1",
    "action": "job.save", "object": "job backup", "outcome": "done", "hash": "00",
    "details": {"changes": {"command": {"from": "a", "to": "b"}}},
}  # fmt: skip
_REFUSED = {
    **_ENTRY, "seq": 6, "who": "api 10.0.0.2", "via": "nobody", "action": "login", "object": "", "outcome": "refused",
    "details": {},
}  # fmt: skip
_MANY_CHANGES = {
    **_ENTRY, "seq": 5, "details": {
        "changes": {
            "timeoutSeconds": {"to": 60}, "labels": {"from": {"team": "a"}, "to": {}},
            "env": {"added": ["A", "B"], "changed": ["C"]},
            "stdin": {"from": "", "to": {"begins": "select", "characters": 2000, "sha256": "00"}},
        },
        "revision": 12, "runAs": ["app", "@worker"], "workers": {"zone": ["eu", "us"]}, "replayed": True,
    },
}  # fmt: skip
_CHAIN = {
    "chain": "host.ab",
    "entries": 7,
    "problem": None,
    "waiting": 1,
    "head": {"seq": 8, "hash": "00", "ms": _AT_MS},
}
_BROKEN = {"chain": "host.cd", "entries": 3, "problem": "entry 4 is missing", "waiting": 0, "head": None}
_NONE = {"code": "not-found", "detail": "there is no such thing"}

_ANSWERS: dict[str, tuple[int, Any]] = {
    "GET /jobs": (200, {"items": [_JOB, _PAUSED], "nextCursor": None, "total": 2, "warnings": ["etcd is away"]}),
    "GET /jobs/backup": (200, _JOB),
    "GET /jobs/%E6%AF%8F%E6%99%9A": (200, _PAUSED),
    "PUT /jobs/backup": (200, _CHANGED),
    "PUT /jobs/new": (201, {"changed": True, "job": {**_JOB, "name": "new", "nextFire": None}}),
    "PUT /jobs/bad": (400, _INVALID),
    "DELETE /jobs/backup": (200, {"deleted": True, "warnings": ["it runs"]}),
    "DELETE /jobs/none": (200, {"deleted": False}),
    "POST /jobs/backup/pause": (200, {"changed": True, "warnings": ["one fire is skipped"]}),
    "POST /jobs/backup/resume": (200, {"changed": False}),
    "POST /jobs/backup/unblock": (409, {"code": "clock", "detail": "no mark lies ahead"}),
    "POST /jobs/backup/kill": (200, {"killed": [_RUN["id"]], "message": "1 run of backup is killed"}),
    "POST /jobs/backup/run": (200, {"runId": "backup@r-10"}),
    "POST /schedule/preview": (200, {"timezone": "UTC"}),
    "POST /jobs/check": (200, {"errors": [], "warnings": ["a warning"], "skips": ["one fire"]}),
    "GET /jobs/backup/fires": (200, {"items": _FIRES, "nextCursor": None, "upcoming": []}),
    "GET /jobs/backup/versions": (200, {"items": [_VERSION]}),
    "GET /jobs/backup/versions/41": (200, _VERSION),
    "POST /jobs/backup/versions/41/restore": (200, {"job": {**_JOB, "revision": 42}, "warnings": []}),
    "GET /audit": (
        200,
        {
            "items": [_ENTRY, _REFUSED, _MANY_CHANGES],
            "nextCursor": None,
            "waiting": 1,
            "warnings": ["1 entry is on its way"],
        },
    ),
    "GET /audit/verify": (200, {"items": [_CHAIN, _BROKEN], "whole": False, "nextCursor": None}),
    "GET /runs": (200, {"items": [_RUN, _OTHER_RUN], "nextCursor": None, "warnings": ["some are missing"]}),
    f"GET /runs/backup%40{_AT_MS}%231": (200, _RUN),
    f"GET /runs/backup%40{_AT_MS}%231/output": (200, _RUN["output"]),
    f"GET /runs/%E6%AF%8F%E6%99%9A%40{_AT_MS}/output": (200, ""),
    "GET /runs/backup%40r-10": (200, _RUN),
    "POST /runs/a/kill": (200, {"outcome": "killed", "message": "a was killed"}),
    "POST /runs/b/kill": (200, {"outcome": "pending", "message": "b has not ended yet"}),
    "POST /runs/a/give-up": (200, {"outcome": "lost", "message": "a is lost"}),
    "GET /workers": (200, {"items": [_WORKER, {"name": "w2", "state": "gone"}], "warnings": []}),
    "POST /workers/worker-1/drain": (200, {}),
    "POST /workers/worker-1/undrain": (200, {"message": "worker-1 takes fires again"}),
    "DELETE /workers/worker-1": (409, {"detail": "worker-1 is live; stop it first"}),
    "GET /statistics": (200, {"items": [_DAY, {**_DAY, "day": "2026-03-28"}], "total": _DAY}),
}

_COMMANDS = (
    "job list", "job list -o json --limit 2 --label team=ops --state failing -q x", "job list --limit 2",
    "job show backup", "job show backup -o json", "job show 每晚", "job show none", "job show ..", "job log backup",
    "job log backup --output --limit 2", "job log backup --status failed -o json", "job fires backup",
    "job fires backup --limit 1 --not-run", "job fires backup -o json --from 7d --to 1h", "job next backup",
    "job next backup -o json", "job save backup --command x --cron @daily",
    "job save backup --edit --timeout 60 --set labels.team=null -o json",
    "job save new --command x --every 5m --label a=b --env K=V", "job save bad --command x", "job save --command x",
    "job save x --label =1", "job save x --set nothing", "job save backup --timeout 5m",
    "job save x --paused --enabled", "job delete backup none", "job delete backup --if-match 0",
    "job pause backup backup --reason why", "job resume backup none", "job unblock backup --force",
    "job kill backup none", "job kill", "job run backup --dedupe-key k", "job run backup --dedupe-key k -o json",
    "job run backup --wait", "job run backup --wait -o json", "job run backup --dedupe-seconds 3",
    "job run backup --at tomorrow", "job versions backup", "job versions backup -o json", "job versions backup 41",
    "job restore backup 41", "job apply -f FOLDER --dry-run", "job apply -f FOLDER/a.yaml FOLDER/b.json",
    "job apply -f FOLDER -o json", "job apply -f FOLDER --prune", "job apply -f FOLDER/none.yaml", "job apply",
    "run list", "run list -o json --job backup --worker worker-1 --from 24h", "run list --limit 2",
    "run list --from yesterday", "run list --from 1h --to 2h", "run list --limit 0", "run show backup@{at}#1",
    "run show backup@{at}#1 -o json", "run log backup@{at}#1", "run log 每晚@{at}", "run log none", "run kill a b none",
    "run give-up a --reason gone", "run give-up a", "worker list", "worker list -o json",
    "worker drain worker-1 --reason kernel", "worker undrain worker-1", "worker forget worker-1", "worker drain",
    "audit list", "audit list -o json --who alice --from 24h", "audit list --outcome done --limit 1",
    "audit list --outcome no", "audit verify", "audit verify -o json",
    "stats", "stats backup --days 2 -o json", "stats --json", "stats --days 401",
    "cron next @daily -n 2 --from 2026-03-28T12:00:00Z --tz Europe/Berlin",
    "cron next @daily -n 2 --from 2026-03-28T12:00:00Z -o json", "cron next */0", "cron next @daily --tz Nowhere",
    "cron next 0_0_0_1_1_*_2001 --from 2026-03-28T12:00:00Z",
    "cron explain 0_30_2_*_*_MON-FRI_* --from 2026-03-28T12:00:00Z --tz Europe/Berlin",
    "cron explain H_H(1-5)_*_*_* --job backup --from 2026-03-28T12:00:00Z -o json",
    "cron explain H_2_*_*_* --tz Europe/Berlin --from 2026-03-28T12:00:00Z",
    "cron explain H_H_*_*_&H -o json", "cron next H_H_*_*_*", "cron next H_H_*_*_* -o json",
    "cron next 30_2_*_*_* -n 3 --tz Europe/Berlin --from 2026-03-27T12:00:00Z",
    "cron next 30_2_*_*_* -n 3 --tz Europe/Berlin --from 2026-03-27T12:00:00Z -o json",
    "cron next 30_*_*_*_* -n 1 --tz America/Chicago --from 2026-06-01T00:00",
    "cron next 30_*_*_*_* -n 1 --tz Asia/Tokyo --from 2026-06-01T00:00",
    "cron explain 0_0_0_1_1_*_1999 --from 2026-03-28T12:00:00Z -o json",
    "cron explain 0_0_13_*_5 --from 2026-03-28T12:00:00Z -o json",
    "cron explain @daily --tz Europe/Berlin --from 9999-06-01",
    "cron explain @daily --tz Europe/Berlin --from 9999-12-31T23:59:59",
    "cron explain @daily --tz Europe/Berlin --from 0001-01-03",
    "cron next 61_*_*_*_*", "cron explain *_*_*_*_*_*", "cron explain @daily --tz Mars", "cron next @daily --from noon",
    "cron next @daily -n 0", "cron next", "cron",
    "crontab import FOLDER/crontab --tz UTC --dry-run", "crontab import FOLDER/crontab --tz UTC -o json --owner me",
    "crontab import FOLDER/none --tz UTC", "crontab import", "version", "config show worker -o json --nonsense",
    "config show worker --config FOLDER/none.json", "up --port x", "up --port 99999", "up --workers 0", "up --dat x",
    "config", "start manager --nonsense", "start worker --nonsense", "worker --nonsense", "start", "", "nonsense",
    "job", "job lst", "run", "cron nxt", "crontab",
    "job list --labl x", "job list extra", "job list --state x", "job list --limit x", "job show",
    "job list --server ftp://x", "job list --server http://127.0.0.1:1",
)  # fmt: skip


class _Canned(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # an answer in one piece, for which no acknowledgement is waited for

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0].removeprefix("/api/v1")
        status, document = _ANSWERS.get(f"{self.command} {path}", (404, _NONE))
        is_text = isinstance(document, str)
        body = (document if is_text else json.dumps(document)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


@pytest.fixture
def server() -> Iterator[str]:
    """A manager that answers each call with the same document whenever it is asked."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Canned) as http:
        http.daemon_threads, http.block_on_close = True, False
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files for `apply` and `import`."""
    (tmp_path / "a.yaml").write_text("name: backup\ncommand: other\ncronExpr: '0 0 2 1 1 * 2090'\nenabled: true\n")
    (tmp_path / "b.json").write_text('[{"name": "new", "command": "x", "cronExpr": "@daily", "enabled": false}]')
    (tmp_path / "crontab").write_text(
        "# jobs\nMAILTO=ops\n\n5 2 * * * /bin/one >/dev/null\n@reboot two\n5/10 * * * * three\n"
    )
    return tmp_path


def test_commands_print_and_fail_as_ever(
    server: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETCRON_SERVER", server)
    monkeypatch.setenv("COLUMNS", "60")  # nothing that goes into a pipe depends on it
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(folder)
    time.tzset()
    told = "\n".join(_told(line, folder, capsys) for line in _COMMANDS)
    monkeypatch.undo()
    time.tzset()
    if os.environ.get("ETCRON_GOLDEN") == "write":
        _TRANSCRIPT.write_text(told)
    before = _TRANSCRIPT.read_text()
    assert told == before, "\n".join(difflib.unified_diff(before.splitlines(), told.splitlines(), lineterm=""))


def _told(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A command with what it printed and its status, as text that is the same on every machine and Python."""
    words = [word.replace("_", " ") if line.startswith("cron ") else word for word in line.format(at=_AT_MS).split()]
    try:
        status = main([word.replace("FOLDER", str(folder)) for word in words])
    except SystemExit as leaving:
        status = int(str(leaving.code))
    captured = capsys.readouterr()
    err = captured.err
    if err.startswith("usage:"):
        # How the usage is laid out, and what there is to choose from, is argparse's.
        err = re.sub(r"\(choose from .*\)", "(...)", err.splitlines()[-1]) + "\n"
    told = [f"$ etcron {line}"]
    told += [f"  {text}" for text in captured.out.replace("\x1b", "<ESC>").split("\n")[:-1]]
    if captured.out and not captured.out.endswith("\n"):
        told.append("  (without a line end)")
    told += [f"! {text}" for text in err.splitlines()]
    return re.sub(
        r'(?<="tzdata": ).*', "<tzdata>", "\n".join([*told, f"= {status}", ""]).replace(str(folder), "FOLDER")
    )
