"""A whole etcron of real processes, and Debian's Chromium in front of it; skipped where there is no browser.

Every page that a test opens is watched: an error in its console, an exception of its scripts or a violation of the
Content-Security-Policy fails the test.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import playwright
import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from common.etcd import EtcdClient
from common.protocol.access_keys import AccessKeys
from tests.console.console import CHROMIUM, PATIENT_MANAGER, SAME_SCRIPT, Console, Usual
from tests.support.access import administrator_in
from tests.support.cluster import Cluster, running_cluster
from tests.support.etcd_server import EtcdServer, free_port, serving_etcd
from tests.support.log_store import LogStore, serving_log_store

_VENDOR = Path(__file__).parents[2] / "webroot/static/vendor/manifest.json"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One event loop for all tests with a browser: it is started once."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()) and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path; without it, or without the assets, the tests are skipped."""
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium: `make chromium` installs it on Debian, as root")
    node = Path(playwright.__file__).parent / "driver/node"  # what drives the browser runs in it
    try:
        subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", error)
        pytest.skip(f"playwright does not start (`make chromium` installs libatomic1 on Debian, as root): {said}")
    if not _VENDOR.exists():
        pytest.skip("the console's assets are not built: make assets")
    return found


@pytest.fixture(scope="session")
def screenshots() -> Path | None:
    """Where screenshots are kept: ETCRON_SCREENSHOTS. Else none are made, for each takes a quarter of a second."""
    chosen = os.environ.get("ETCRON_SCREENSHOTS")
    if not chosen:
        return None
    folder = Path(chosen)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """One Chromium for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NODE_OPTIONS", f"--require={SAME_SCRIPT}")
        async with async_playwright() as driver:
            patch.undo()
            browser = await driver.chromium.launch(executable_path=chromium, args=CHROMIUM)
            yield browser
            await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """etcd, log store, one manager, one worker: for all tests; each has job names of its own."""
    directory, quick = tmp_path_factory.mktemp("console"), ("--shutdown-grace-seconds", "1")
    patient = {"manager-1": PATIENT_MANAGER}
    async with running_cluster(directory, workers=1, managers=1, worker_flags=quick, flags_of=patient) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def administrator(cluster: Cluster) -> dict[str, str]:
    """Channels are changed by nobody else, also where no login is asked for."""
    async with EtcdClient([cluster.shared[1]]) as etcd:
        return await administrator_in(etcd, AccessKeys("/etcron"))


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """For managers that ask for a login; each has keys of its own."""
    yield from serving_etcd(tmp_path_factory.mktemp("etcd"))


@pytest.fixture(scope="session")
def log_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogStore]:
    """The same."""
    yield from serving_log_store(tmp_path_factory.mktemp("log-store"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def usual(browser: Browser, cluster: Cluster) -> Usual:
    """The context of most pages."""
    usual = await Usual.new(browser, f"http://127.0.0.1:{cluster.ports[0]}")
    await usual.keep_stream()
    return usual


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def own_usual(browser: Browser) -> Usual:
    """The context of pages of managers that a test has for itself: each serves at the same port, after the other."""
    return await Usual.new(browser, f"http://127.0.0.1:{free_port()}")


@pytest_asyncio.fixture(loop_scope="session")
async def console(browser: Browser, usual: Usual, cluster: Cluster, screenshots: Path | None) -> AsyncIterator[Console]:
    """What opens pages; nothing may be wrong on any of them."""
    base = f"http://127.0.0.1:{cluster.ports[0]}"
    console = Console(browser=browser, usual=usual, base=base, screenshots=screenshots)
    yield console
    await console.close()
    await cluster.calm()
    assert console.problems == []


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def name(request: pytest.FixtureRequest, _numbers: Iterator[int]) -> str:
    """A job name that no other test has."""
    return f"{request.node.originalname[5:35]}-{next(_numbers)}"
