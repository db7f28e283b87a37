"""docs/operate/one-server.md, line by line, on a machine that is namespaces; it is killed whole, and loses its power.

Takes some four minutes. Needs root. pip takes packages from a directory, and etcd is on the PATH: there is no network.
What was written is there after the loss of power, also what was not synced: `make power-cut` is about that.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.verdicts import Verdict
from common.version import VERSION
from tests.chaos.scenarios.five_machines import EVIDENCE, Evidence
from tests.docs.blocks import blocks_of
from tests.support.etcd_server import etcd_of
from tests.support.machines import Machine, machines, why_no_machines
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
EARLIER = "0.0.9"
SET_UP, LOGIN, _, _, BACKUP, UPGRADE, BACK, ANEW = [
    block.text for block in blocks_of(ROOT / "docs/operate/one-server.md") if block.language == "sh"
]
WITHOUT_NETWORK = """
install /packages/etcd /usr/local/bin/etcd
printf '[global]\\nno-index = true\\nfind-links = /packages/wheels\\n' >/etc/pip.conf
"""
WITNESS = EVIDENCE.replace("/evidence", "/witness")
JOBS = f"""
etcron job save evidence --cron '* * * * * * *' --overlap allow --command '{EVIDENCE}; sleep 3'
etcron job save witness --cron '* * * * * * *' --set broadcast=true --command '{WITNESS}'
etcron job save at-boot --cron @reboot --set broadcast=true \\
    --command 'cat /proc/sys/kernel/random/boot_id >>/packages/boots'
"""

pytestmark = pytest.mark.skipif(why_no_machines() is not None, reason=why_no_machines() or "")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What etcron needs, and two releases of it that differ in their version alone."""
    directory = tmp_path_factory.mktemp("packages")
    etcd = etcd_of("3.5")
    if etcd is None:
        pytest.skip("there is no etcd 3.5 of Debian here")
    shutil.copy(etcd, directory / "etcd")
    locked = ["--require-hashes", "--requirement", str(ROOT / "requirements/run.txt")]
    wheels = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(directory / "wheels"), *locked]
    subprocess.run(wheels, check=True)
    (wheel,) = (ROOT / "dist").glob("etcron-*.whl")
    for release in ("release", "earlier"):
        (directory / release / "dist").mkdir(parents=True)
        shutil.copytree(ROOT / "deploy", directory / release / "deploy")
    shutil.copy(wheel, directory / "release" / "dist")
    with (
        zipfile.ZipFile(wheel) as ours,
        zipfile.ZipFile(directory / "earlier" / "dist" / wheel.name.replace(VERSION, EARLIER), "w") as theirs,
    ):
        for name in ours.namelist():
            content = ours.read(name)
            if name == "common/version.py" or ".dist-info/" in name:
                content = content.replace(VERSION.encode(), EARLIER.encode())
            theirs.writestr(name.replace(f"etcron-{VERSION}", f"etcron-{EARLIER}"), content)
    for name in ("evidence", "witness", "boots"):
        (directory / name).touch()
        (directory / name).chmod(0o666)
    directory.chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def server(packages: Path) -> Iterator[Machine]:
    with machines({"server": "10.77.0.1"}, packages) as found:
        yield found["server"]


async def test_the_page_is_followed_and_the_power_is_lost(server: Machine, packages: Path) -> None:
    evidence, witness = Evidence(packages / "evidence"), Evidence(packages / "witness")

    def records(job: str) -> list[dict[str, Any]]:
        """Of what has ended."""
        found = json.loads(server.does(f"etcron run list --job {job} --limit 9999 -o json"))
        return [one for one in found if "status" in one]

    def names(of: str) -> set[str]:
        return {one["name"] for one in json.loads(server.does(f"etcron {of} list -o json"))}

    def boots() -> list[str]:
        return (packages / "boots").read_text().split()

    async def each_fire_ran_at_most_once_and_is_recorded() -> set[str]:
        """Of the seconds up to now; how they ended."""
        await evidence.goes_on()
        await witness.goes_on()  # as it is broadcast, the jobs for the boot have been looked at too
        ran = {plan for plan, _ in evidence.runs()}
        seconds = set(range(min(ran), max(ran), 1000))

        def is_settled() -> bool:
            said = records("evidence")
            spans = [(one["planTime"], one.get("rangeEndTime") or one["planTime"]) for one in said]
            had = {at for first, last in spans for at in range(first, last + 1, 1000)}
            ended = {one["planTime"] for one in said if one["status"] == "success"}
            return seconds <= had and ended <= {plan for plan, _ in evidence.runs()}

        await wait_until(is_settled, description="each second has its record", timeout=120, at_most_every_s=1)
        said = [one for one in records("evidence") if one["planTime"] in seconds]
        assert len({one["planTime"] for one in said}) == len(said)
        assert ran & seconds <= {one["planTime"] for one in said if Verdict(one["status"]).is_of_a_run}
        assert evidence.twice() == []
        how = Counter(one["status"] for one in said)
        print(f"{len(seconds)} seconds: {dict(how)}", flush=True)  # noqa: T201
        return set(how)

    server.does(f"{WITHOUT_NETWORK}\ncd /packages/earlier\n{SET_UP}")
    server.does(LOGIN.replace("etcron admin", "echo correct-horse-battery-staple | etcron admin"))
    server.does(BACKUP)
    server.does(JOBS)
    assert await each_fire_ran_at_most_once_and_is_recorded() == {"success"}
    assert "etcron is up" in server.does("journalctl -u etcron-up")
    assert {"manager.log", "worker-1.log"} <= set(server.does("ls /var/lib/etcron-up/log").split())
    server.does("etcron job run etcron-backup --wait && tar -tzf /var/backups/etcron-*.tar.gz etcron.json")

    server.does("systemctl kill --signal=KILL etcron-up")
    assert "lost" in await each_fire_ran_at_most_once_and_is_recorded()
    assert boots() == [], "saved after the boot"

    before = {one["id"]: one["status"] for one in records("evidence")}
    going = evidence.runs()[-1][0]
    server.loses_power()
    server.boots()
    await each_fire_ran_at_most_once_and_is_recorded()
    after = {one["id"]: one["status"] for one in records("evidence")}
    assert before.items() <= after.items()
    assert after[f"evidence@{going}#1"] == "lost"
    assert {"evidence", "witness", "at-boot", "etcron-backup"} == names("job")
    assert "me" in names("user")
    this_boot = server.does("cat /proc/sys/kernel/random/boot_id").split()
    assert boots() == this_boot

    server.does("systemctl restart etcron-up")
    await each_fire_ran_at_most_once_and_is_recorded()
    assert boots() == this_boot

    server.does(f"cd /packages/release\n{UPGRADE}")
    await each_fire_ran_at_most_once_and_is_recorded()
    assert server.does("etcron --version").split() == ["etcron", VERSION]

    server.does(f"cd /packages/earlier\n{BACK}")
    await evidence.goes_on()
    await witness.goes_on()
    assert server.does("etcron --version").split() == ["etcron", EARLIER]
    print(f"{len(evidence.twice())} ran again after the restore", flush=True)  # noqa: T201
    assert before.items() <= {one["id"]: one["status"] for one in records("evidence")}.items()
    assert boots() == this_boot
    assert [one["status"] for one in records("at-boot")] == ["success"]

    for job in ("newer", "newest"):
        server.does(f"etcron job save {job} --every 1d --command true")
        server.does(f"cd /packages/release\n{UPGRADE}")
        await witness.goes_on()
        assert server.does("etcron --version").split() == ["etcron", VERSION]
    server.does(f"cd /packages/earlier\n{BACK}")
    await witness.goes_on()
    assert names("job") & {"newer", "newest"} == {"newer"}, "it is as it was before the upgrade, which was done twice"

    own = '{"defaultUser": "etcron", "allowedUsers": ["root"], "logRetentionDays": 91}'
    server.does(f"""
echo '{own}' >/etc/etcron/worker.json
etcron backup /root/etcron.tar.gz --data-dir /var/lib/etcron-up
cp -a /etc/etcron /root/etcron
systemctl disable --now etcron-up
rm -rf /opt/etcron /usr/local/bin/etcron /etc/etcron /var/lib/etcron-up
userdel --remove etcron
cd /packages/earlier
{SET_UP}""")
    assert names("job") == set()
    server.does(ANEW)
    await witness.goes_on()
    assert {"evidence", "witness", "newer"} <= names("job")
    assert own in server.does("cat /etc/etcron/worker.json")
