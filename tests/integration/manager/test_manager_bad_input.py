"""Bad input over HTTP: each answer names the field, the fault and the remedy, and nothing is stored."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.managing import Managed, Place, managing, problem_of, refusal_of
from tests.support.waiting import wait_until

GOOD = {"name": "job1", "command": "echo hello", "cronExpr": "0 * * * * * *"}


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A job that is refused, and what the message has to say."""

    job: str
    says: tuple[str, ...]


def _with(says: tuple[str, ...], **fields: Any) -> Bad:
    return Bad(job=json.dumps({**GOOD, **fields}), says=says)


BAD_JOBS = {
    "not JSON": Bad(job="{name:", says=("job: is not JSON", "send a JSON object")),
    "not an object": Bad(job="[1]", says=("job: is a JSON array, not an object", "send a JSON object")),
    "a text": Bad(job='"job"', says=("job: is a JSON text",)),
    "empty": Bad(job="", says=("job: is not JSON",)),
    "no name": Bad(job='{"command":"a","cronExpr":"@daily"}', says=("name: is missing", "ASCII letters")),
    "name with /": _with(("name: 'a/b' has characters", "ASCII letters"), name="a/b"),
    "name with <script>": _with(("name: '<script>' has characters", "ASCII letters"), name="<script>"),
    "name of 200 characters": _with(("name: is 200 characters long", "1 to 128"), name="x" * 200),
    "name ..": _with(("name: '..' has characters",), name=".."),
    "empty command": _with(("command: is empty", "a command line"), command=""),
    "six fields": _with(("cronExpr: ", "with seconds first", "write the one that you mean"), cronExpr="*/5 * * * * *"),
    "61 seconds": _with(("cronExpr: Second 61", "59"), cronExpr="61 * * * * * *"),
    "30 February": _with(("cronExpr: ", "30"), cronExpr="0 0 0 30 2 * *"),
    "a past year": _with(
        ("cronExpr: '0 0 0 1 1 * 2001' never fires again", "last fire was 2001-01-01T00:00:00.000Z", "enabled"),
        cronExpr="0 0 0 1 1 * 2001",
    ),
    "10 KB of expression": _with(("cronExpr: ",), cronExpr="0 " * 5_000),
    "10 KB of one field": _with(("cronExpr: ",), cronExpr=",".join(["1"] * 5_000) + " * * * * * *"),
    "misspelt field": _with(("is not a field of a job", "did you mean cronExpr?"), cronexpr="@daily"),
    "channel without a list": _with(("notify: is ", "a list of entries"), notify={"to": "ops"}),
    "timezone Mars": _with(("timezone: ", "IANA name"), timezone="Mars"),
    "lostAfter below the session's": _with(("lostAfterSeconds: ", "give more than 19"), lostAfterSeconds=12),
    "grace below two hedges": Bad(
        job=json.dumps({**GOOD, "misfire": {"graceSeconds": 0}}), says=("misfire.graceSeconds: ",)
    ),
    "a lone surrogate": Bad(job=json.dumps({**GOOD, "command": "\ud800"}), says=("command: is not valid Unicode",)),
    "70 KB": _with(("job: is 7", "65,536"), command="x" * 70_000),
    "everything": Bad(job='{"Name":"a","command":"","cronExpr":"x","timezone":"Mars"}', says=("Name", "command", "|")),
}


async def test_bad_job_is_refused_with_field_fault_and_remedy(manager: Managed) -> None:
    for what, bad in BAD_JOBS.items():
        message = await refusal_of(await manager.http.post("/job/save", data={"job": bad.job}), 400)
        assert [words for words in bad.says if words not in message] == [], (what, message)
        assert await manager.stored() == {}, what


async def test_six_fields_show_both_readings(manager: Managed) -> None:
    response = await manager.http.post("/job/save", data={"job": json.dumps({**GOOD, "cronExpr": "1 2 3 4 5 6"})})
    message = await refusal_of(response, 400)
    assert "0 1 2 3 4 5 6" in message
    assert "1 2 3 4 5 6 *" in message


async def test_past_year_is_no_fault_of_a_paused_job(manager: Managed) -> None:
    answer = await manager.save(json.dumps({**GOOD, "cronExpr": "0 0 0 1 1 * 2001", "enabled": False}))
    assert answer["warnings"] == ["it never fires again: every fire of the expression is past"]


async def test_missing_job_field_is_named(manager: Managed) -> None:
    message = await refusal_of(await manager.http.post("/job/save", data={"jobs": "{}"}), 400)
    assert message.startswith("job: is missing; send the form field job={")


async def test_unescaped_ampersand_is_explained(manager: Managed) -> None:
    body = 'job={"name":"a","command":"sleep 1 & echo b","cronExpr":"@daily"}'
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    message = await refusal_of(await manager.http.post("/job/save", data=body, headers=headers), 400)
    assert "--data-urlencode" in message
    assert await manager.stored() == {}


@pytest.mark.parametrize("path", ["/job/delete", "/job/kill"])
@pytest.mark.parametrize("name", [None, "", "a/b", "x" * 200])
async def test_bad_name_is_refused(manager: Managed, path: str, name: str | None) -> None:
    response = await manager.http.post(path, data={} if name is None else {"name": name})
    assert (await refusal_of(response, 400)).startswith("name: ")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"name": "a", "skip": "-1"}, "skip: is '-1'; a whole number from 0 to 1,000,000; 0 when left out"),
        ({"name": "a", "limit": "100000"}, "limit: is '100000'; a whole number from 1 to 1,000; 20 when left out"),
        ({"name": "a", "limit": "abc"}, "limit: is 'abc'; a whole number from 1 to 1,000; 20 when left out"),
        ({"name": "a", "limit": "0"}, "limit: is '0'; "),
        ({"name": "a", "limit": ""}, "limit: is ''; "),
        ({"name": "a", "limit": "\u0661"}, "limit: is "),
        ({"name": "a", "limit": "9" * 5000}, "limit: is "),
        ({}, "name: is missing; name=<the job's name>"),
        ({"name": "<b>"}, "name: '<b>' has characters"),
    ],
)
async def test_bad_log_query_is_refused(manager: Managed, query: dict[str, str], says: str) -> None:
    message = await refusal_of(await manager.http.get("/job/log", params=query), 400)
    assert says in message


async def test_every_mistake_of_a_query_is_named_at_once(manager: Managed) -> None:
    query = {"skip": "x", "limit": "y"}
    message = await refusal_of(await manager.http.get("/job/log", params=query), 400)
    assert [part.split(":")[0] for part in message.split(" | ")] == ["skip", "limit", "name"]


async def test_body_of_5_mb_is_refused(manager: Managed) -> None:
    body = io.BytesIO(b"job=" + b"x" * 5_000_000)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    message = await refusal_of(await manager.http.post("/job/save", data=body, headers=headers), 413)
    assert "1 MiB" in message
    assert await manager.stored() == {}


async def test_body_of_5_mb_in_chunks_is_refused(manager: Managed) -> None:
    async def chunks() -> Any:
        for _ in range(50):
            yield b"x" * 100_000

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    message = await refusal_of(await manager.http.post("/job/save", data=chunks(), headers=headers), 413)
    assert "1 MiB" in message


async def test_body_that_does_not_arrive_is_given_up(place: Place) -> None:
    async with managing(place, apiReadTimeout=200) as manager:
        reader, writer = await asyncio.open_connection("127.0.0.1", manager.http.port)
        head = "POST /job/save HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
        writer.write((head + "Content-Type: application/x-www-form-urlencoded\r\n\r\njob=").encode())
        answer = await reader.readline()
        writer.close()
    assert answer == b"HTTP/1.1 408 Request Timeout\r\n"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data; boundary=x"])
async def test_wrong_content_type_is_refused(manager: Managed, kind: str) -> None:
    response = await manager.http.post("/job/save", data=b"{}", headers={"Content-Type": kind})
    assert "send application/x-www-form-urlencoded" in await refusal_of(response, 415)


async def test_form_that_is_not_utf8_is_refused(manager: Managed) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"job=%ff", b"job=\xff"):
        message = await refusal_of(await manager.http.post("/job/save", data=body, headers=headers), 400)
        assert message.startswith("form: cannot be read")


async def test_utf8_that_curl_did_not_escape_is_taken(manager: Managed) -> None:
    body = 'job={"name":"job1","command":"echo héllo","cronExpr":"@daily"}'.encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    response = await manager.http.post("/job/save", data=body, headers=headers)
    assert response.status == 200
    assert (await manager.get("/job/list"))["data"][0]["command"] == "echo héllo"


@pytest.mark.parametrize("path", ["/job/save", "/job/delete", "/job/kill"])
async def test_wrong_method_is_answered_in_json(manager: Managed, path: str) -> None:
    response = await manager.http.get(path)
    assert "use POST" in await refusal_of(response, 405)
    assert response.headers["Allow"] == "POST"


async def test_unknown_path_is_answered_in_json(manager: Managed) -> None:
    assert "not found" in await refusal_of(await manager.http.get("/job/nothing"), 404)
    for path in ("/api/v1/nothing", "/nothing", "/static/nothing.js", "/static/../manager/app.py"):
        assert (await problem_of(await manager.http.get(path), 404))["code"] == "no-such-path"


async def test_unknown_page_is_answered_to_a_browser_with_the_way_to_the_console(manager: Managed) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site": "none"}
    for path in ("/nosuchpage", "/runs/", "/jobs/a/b", "/%3Cscript%3E"):
        response = await manager.http.get(path, headers=browser)
        assert (response.status, response.content_type) == (404, "text/html")
        assert "default-src" in response.headers["Content-Security-Policy"]
        text = await response.text()
        assert '<a class="btn btn-primary" href="/">To the overview</a>' in text
        assert "<script>" not in text
    chinese = await manager.http.get("/nosuchpage", headers={**browser, "Accept-Language": "zh"})
    assert "页面不存在" in await chinese.text()
    for path in ("/api/v1/nothing", "/static/nothing.js"):
        assert (await problem_of(await manager.http.get(path, headers=browser), 404))["code"] == "no-such-path"
    assert "not found" in await refusal_of(await manager.http.get("/job/nothing", headers=browser), 404)
    assert (await problem_of(await manager.http.post("/nosuchpage", json={}), 404))["code"] == "no-such-path"


async def test_garbage_job_key_is_shown_and_disturbs_nothing(manager: Managed) -> None:
    await manager.save(json.dumps(GOOD))
    await manager.etcd.put(manager.keys.job("garbage"), b"\xff\x00{")
    await manager.etcd.put(manager.keys.job("other"), b'{"name":"job1","command":"a","cronExpr":"@daily"}')
    await manager.etcd.put(manager.keys.job("a/b\udcff"), b"[]")
    listed = {job["name"]: job.get("problem") for job in (await manager.get("/job/list"))["data"]}
    assert list(listed) == ["a/b\udcff", "garbage", "job1", "other"]
    assert listed["job1"] is None
    assert "is not JSON" in listed["garbage"]
    assert "anchorMs: is missing" in listed["other"]

    async def shown() -> bool:
        broken = await manager.get("/api/v1/jobs", state="broken")
        return [item["name"] for item in broken["items"]] == ["a/b\udcff", "garbage", "other"]

    await wait_until(shown, description="the broken jobs to be listed")


async def test_garbage_job_key_can_be_saved_over_and_deleted(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.job("job1"), b"garbage")
    await manager.etcd.put(manager.keys.mark("job1"), b"garbage")
    answer = await manager.save(json.dumps(GOOD))
    assert "is not JSON" in answer["data"]["problem"]
    assert "replaced a value that was not a job" in answer["warnings"][0]
    assert await manager.mark("job1") is not None
    await manager.etcd.put(manager.keys.job("job1"), b"garbage again")
    assert (await manager.post("/job/delete", name="job1"))["data"]["name"] == "job1"
    assert (await manager.get("/job/list"))["data"] == []


@pytest.mark.parametrize(
    "head",
    [b"GET /job/list?" + b"a" * 9000 + b" HTTP/1.1", b"GET / HTTP/1.1\r\nX: " + b"a" * 9000, b"\x16\x03\x01 no HTTP"],
)
async def test_what_is_no_request_costs_one_line_in_the_log(
    manager: Managed, head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    reader, writer = await asyncio.open_connection(manager.http.host, manager.http.port)
    writer.write(head + b"\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
    said = [one for one in caplog.records if one.name == "aiohttp.server"]
    assert [(one.levelname, one.exc_info, getattr(one, "action", "")) for one in said] in (
        [("INFO", None, "request.malformed")], [],
    )  # fmt: skip
    assert "Traceback" not in caplog.text
    assert len(caplog.text) < 1000


@pytest.mark.parametrize("path", ["/job/kill", "/api/v1/jobs/check"])
async def test_body_that_is_garbled_is_refused_and_costs_one_line_in_the_log(
    manager: Managed, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kind = "application/x-www-form-urlencoded" if path.startswith("/job/") else "application/json"
    reader, writer = await asyncio.open_connection(manager.http.host, manager.http.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head.encode() + b"no chunk\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()
    await wait_until(lambda: "aiohttp.server" in {one.name for one in caplog.records}, description="it has been logged")
    assert "Traceback" not in caplog.text
    assert [one.levelname for one in caplog.records if one.levelno > logging.INFO] == []
