"""The page at ``/``: what it shows, and that nothing in it is ever more than text."""

from __future__ import annotations

import json
import re
from pathlib import Path

from common.keys import RunId
from common.run import RunRecord, Verdict
from tests.support.managing import Managed, Place, managing

SCRIPT = "<script>alert('x')</script>"


async def page_of(manager: Managed, path: str = "/") -> str:
    response = await manager.http.get(path)
    assert response.status == 200
    assert response.content_type == "text/html"
    return await response.text()


async def test_shows_jobs_with_their_last_and_next_fires(manager: Managed) -> None:
    await manager.save('{"name":"backup","command":"backup --all","cronExpr":"0 0 0 1 1 * 2190"}')
    await manager.write([
        RunRecord(run_id=RunId.planned("backup", 3_600_000), status=Verdict.FAILED, err="exit status 2",
                  plan_ms=3_600_000, start_ms=3_600_001, end_ms=3_600_002)
    ])  # fmt: skip
    page = await page_of(manager)
    for text in ("backup", "backup --all", "0 0 0 1 1 * 2190", "1970-01-01 01:00:00", "failed: exit status 2"):
        assert text in page
    assert "2190-01-01 00:00:00" in page
    assert "0 workers" in page


async def test_nothing_of_a_job_becomes_markup(manager: Managed) -> None:
    document = {"name": "j", "command": SCRIPT, "cronExpr": "@daily", "labels": {"a": SCRIPT}}
    await manager.save(json.dumps(document))
    await manager.etcd.put(manager.keys.job(SCRIPT), SCRIPT.encode())
    await manager.write([RunRecord(run_id=RunId.planned("j", 1), status=Verdict.FAILED, err=SCRIPT, plan_ms=1)])
    page = await page_of(manager)
    assert "<script" not in page.casefold()
    assert page.count("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;") >= 3


async def test_name_of_a_foreign_key_that_is_no_text_is_shown(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.job("\udcff"), b"x")
    assert '<th scope="row">?</th>' in await page_of(manager)


async def test_has_no_inline_script_or_style_and_its_style_sheet_is_there(manager: Managed) -> None:
    page = await page_of(manager)
    assert not re.search(r"<script|<style| style=| on[a-z]+=", page)
    (sheet,) = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page)
    response = await manager.http.get(sheet)
    assert (response.status, response.content_type) == (200, "text/css")


async def test_many_jobs_come_in_pages(manager: Managed) -> None:
    value = b'{"name":"x"}'
    for number in range(201):
        await manager.etcd.put(manager.keys.job(f"n{number:03d}"), value)
    first = await page_of(manager)
    assert "n199" in first
    assert "n200" not in first
    (following,) = re.findall(r'href="(/\?cursor=[^"]+)"', first)
    second = await page_of(manager, following)
    assert "n200" in second
    assert "n199" not in second
    assert 'href="/"' in second


async def test_says_loudly_that_there_is_no_login(place: Place) -> None:
    async with managing(place, host="0.0.0.0", allowUnauthenticated=True) as manager:
        assert "listening on 0.0.0.0 without login" in await page_of(manager)


async def test_bad_cursor_is_no_server_error(manager: Managed) -> None:
    response = await manager.http.get("/?cursor=x")
    assert response.status == 400


async def test_log_store_away_leaves_the_jobs(place: Place) -> None:
    away = Place(etcd=place.etcd, log_store="mongodb://127.0.0.1:9", prefix=place.prefix, database=place.database)
    async with managing(away, apiWriteTimeout=1000) as manager:
        await manager.save('{"name":"j","command":"a","cronExpr":"@daily"}')
        page = await page_of(manager)
        assert "The log store cannot be reached" in page
        assert '<th scope="row">j</th>' in page
        answer = await manager.get("/api/v1/jobs")
        assert answer["items"][0]["lastResult"] is None
        assert answer["warnings"] == ["the log store cannot be reached: last results are not shown"]
        assert (await manager.http.get("/job/log?name=j")).status == 503


async def test_own_webroot_takes_the_place_of_ours(place: Place, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "jobs.html").write_text("ours: {{ jobs | length }}")
    (tmp_path / "static").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "static" / "link").symlink_to(tmp_path / "secret")
    async with managing(place, webroot=str(tmp_path)) as manager:
        assert await page_of(manager) == "ours: 0"
        assert (await manager.http.get("/static/link")).status == 404
        assert (await manager.http.get("/static/%2e%2e/secret")).status == 404
        assert (await manager.http.get("/static/a%00b")).status in (400, 404)
