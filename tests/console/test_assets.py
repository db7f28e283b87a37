"""The console's files as the manager serves them, without a browser; and the page where they have not been built."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from common.configuration.config import load_manager_config
from manager.app import create_app
from manager.console.assets import FOREVER, Assets
from manager.console.pages import PAGES, language_for
from tests.console.console import ROOT

WEBROOT = ROOT / "webroot"


@pytest.fixture
def webroot(tmp_path: Path) -> Path:
    """Ours, with something in place of what npm builds."""
    shutil.copytree(WEBROOT, tmp_path / "webroot", ignore=shutil.ignore_patterns("vendor", "__pycache__"))
    vendor = tmp_path / "webroot/static/vendor"
    vendor.mkdir()
    names = {
        name: re.sub(r"\.", "-0123456789ab.", name)
        for name in ("vendor.js", "charts.js", "ansi.js", "bootstrap.css", "icons.svg")
    }
    for name in names.values():
        (vendor / name).write_text(f"/* {name} */" * 100)
    (vendor / "manifest.json").write_text(str(names).replace("'", '"'))
    return tmp_path / "webroot"


@asynccontextmanager
async def serving(webroot: Path) -> AsyncIterator[TestClient]:  # type: ignore[type-arg]
    """A manager without servers behind it."""
    away = {"etcdEndpoints": ["127.0.0.1:1"], "mongodbUri": "mongodb://127.0.0.1:1", "webroot": str(webroot)}
    async with TestClient(TestServer(create_app(load_manager_config(None, {}, away)))) as client:
        yield client


async def test_page_names_only_files_that_are_there_and_browsers_keep_them(webroot: Path) -> None:
    async with serving(webroot) as client:
        page = await (await client.get("/")).text()
        urls = re.findall(r'(?:href|src|data-catalog|data-icons|data-live-worker)="(/static/[^"#]+)', page)
        assert len(urls) > 20
        for url in urls:
            answer = await client.get(url)
            assert answer.status == 200, url
            assert answer.headers["Cache-Control"] == FOREVER, url


async def test_pages_have_no_inline_script_or_style(webroot: Path) -> None:
    async with serving(webroot) as client:
        for path in (
            "/",
            "/jobs",
            "/new",
            "/jobs/a",
            "/jobs/a/edit",
            "/runs",
            "/runs/a",
            "/timeline",
            "/workers",
            "/system",
        ):
            answer = await client.get(path)
            assert answer.status == 200
            text = await answer.text()
            assert not re.search(r"<script>|<style| style=| on[a-z]+=\"", text)


def loaded(page: str) -> set[str]:
    """What a browser fetches for a page before any data."""
    return set(re.findall(r'(?:href|src|data-catalog|data-icons|data-charts)="(/static/[^"#]+)', page))


async def test_first_load_is_at_most_130_kb_and_charts_at_most_30_more() -> None:
    if not Assets((WEBROOT / "static").resolve()).built:
        pytest.skip("the console's assets are not built: make assets")
    async with serving(WEBROOT) as client:

        async def packed(urls: set[str]) -> int:
            answers = [
                await client.get(url, headers={"Accept-Encoding": "gzip"}, auto_decompress=False) for url in urls
            ]
            return sum([len(await answer.read()) for answer in answers])

        for page in PAGES:
            url = re.sub(r"\{\w+\}", "a", page.path)
            urls = loaded(await (await client.get(url)).text())
            assert any("/charts" in one for one in urls) is page.charts, url
            assert await packed(urls) <= (160 if page.charts else 130) * 1024, url


def scripts_of(page: str) -> list[str]:
    return re.findall(r'(?:<script type="module" src|<link rel="modulepreload" href)="(/static/[^"]+)"', page)


async def test_page_runs_one_built_script_and_all_of_ours_where_one_has_changed_since(tmp_path: Path) -> None:
    if not Assets((WEBROOT / "static").resolve()).built:
        pytest.skip("the console's assets are not built: make assets")
    shutil.copytree(WEBROOT, tmp_path / "webroot", ignore=shutil.ignore_patterns("__pycache__"))
    async with serving(tmp_path / "webroot") as client:
        [built] = scripts_of(await (await client.get("/jobs")).text())
        assert built.endswith("/vendor/pages/jobs.js"), "the scripts have changed since they were built: make assets"
        answer = await client.get(built)
        assert (answer.status, answer.headers["Cache-Control"]) == (200, FOREVER)
        for page in PAGES:
            shown = await (await client.get(re.sub(r"\{\w+\}", "a", page.path))).text()
            assert f"/vendor/pages/{page.scripts}.js" in shown
    with (tmp_path / "webroot/static/js/dom.js").open("a") as file:
        file.write("// changed\n")
    async with serving(tmp_path / "webroot") as client:
        first, *others = scripts_of(await (await client.get("/jobs")).text())
    assert first.endswith("/js/main.js")
    assert len(others) > 20
    assert not any("/vendor/pages/" in url or "/js/runs/" in url for url in others)


async def test_old_links_to_the_list_of_jobs_go_on(webroot: Path) -> None:
    async with serving(webroot) as client:
        for asked in ("?q=a%26b&state=failing", "?label=team%3Dx", "?cursor=aXg", "?search"):
            answer = await client.get(f"/{asked}", allow_redirects=False)
            assert (answer.status, answer.headers["Location"]) == (302, f"/jobs{asked}")
        assert (await client.get("/?from=a+mail", allow_redirects=False)).status == 200


async def test_name_in_the_path_stays_text(webroot: Path) -> None:
    async with serving(webroot) as client:
        text = await (await client.get("/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E")).text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


async def test_page_without_assets_says_which_command_to_run(webroot: Path) -> None:
    shutil.rmtree(webroot / "static/vendor")
    async with serving(webroot) as client:
        answer = await client.get("/")
        assert answer.status == 503
        assert "make assets" in await answer.text()
        assert (await client.get("/livez")).status == 200


async def test_file_is_sent_packed_and_not_twice(webroot: Path) -> None:
    async with serving(webroot) as client:
        url = f"/static/{Assets((webroot / 'static').resolve()).url('css/base.css').split('/', 2)[2]}"
        plain = await client.get(url, headers={"Accept-Encoding": "identity"})
        packed = await client.get(url, headers={"Accept-Encoding": "gzip"}, auto_decompress=False)
        assert gzip.decompress(await packed.read()) == await plain.read()
        refused = await client.get(url, headers={"Accept-Encoding": "gzip;q=0"}, auto_decompress=False)
        assert await refused.read() == await plain.read()
        again = await client.get(url, headers={"If-None-Match": plain.headers["ETag"]})
        assert again.status == 304


def test_name_changes_with_the_content(webroot: Path) -> None:
    before = Assets((webroot / "static").resolve()).url("js/main.js")
    (webroot / "static/js/dom.js").write_text("export const h = null;\n")
    assert Assets((webroot / "static").resolve()).url("js/main.js") != before


def test_tag_of_another_manager_gets_our_file_but_is_not_kept(webroot: Path) -> None:
    asset = Assets((webroot / "static").resolve()).find("own-000000000000/js/main.js")
    assert asset is not None
    assert asset.cache_control == "no-cache"
    assert asset.content == (webroot / "static/js/main.js").read_bytes()


@pytest.mark.parametrize("path", ["../templates/shell.html", "own-000000000000/../../__init__.py", "js", "\0", "nope"])
def test_nothing_but_files_below_static_is_found(webroot: Path, path: str) -> None:
    assert Assets((webroot / "static").resolve()).find(path) is None


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        (None, "", "en"),
        (None, "zh-TW,zh;q=0.9,en;q=0.8", "zh-CN"),
        (None, "de-DE,de;q=0.9,zh;q=0.8", "zh-CN"),
        ("en", "zh-CN", "en"),
        ("xx", "fr", "en"),
    ],
)
def test_language_is_the_choice_or_the_browsers(chosen: str | None, accepted: str, language: str) -> None:
    assert language_for(chosen, accepted) == language


async def test_foreign_webroot_takes_the_place_of_ours_and_nothing_leaves_it(webroot: Path, tmp_path: Path) -> None:
    (webroot / "templates/jobs.html").write_text("theirs: {{ t('title.jobs') }}")
    (tmp_path / "secret").write_text("secret")
    (webroot / "static/link").symlink_to(tmp_path / "secret")
    async with serving(webroot) as client:
        assert await (await client.get("/jobs", headers={"Accept-Language": "zh"})).text() == "theirs: 任务"
        for path in ("link", "%2e%2e/secret", "..%2f..%2fsecret", "a%00b", f"{Assets(webroot / 'static')._tag}/link"):
            assert (await client.get(f"/static/{path}")).status in (400, 404), path
