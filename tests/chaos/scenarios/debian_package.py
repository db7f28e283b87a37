"""What `make dist` makes of a Debian package: installed, used, installed again, removed and purged. Needs root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcd_server import usual_etcd
from tests.support.machines import Machine, machines, why_no_machines
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
SERVERS = """
systemd-run --quiet --unit=etcd-here /packages/etcd --data-dir /var/tmp/etcd --enable-grpc-gateway=false
systemd-run --quiet --unit=log-store --property=WorkingDirectory=/opt/etcron /opt/etcron/bin/python -P \\
    -m cli.processes.embedded_log_store --data-dir /var/tmp/log-store --log-file /var/tmp/log-store.log \\
    --pid-file /var/tmp/log-store.pid
"""
MAIN_PID = "systemctl show --property=MainPID --value etcron-worker"
LEFT = "find /etc /opt /usr /var -xdev -name '*etcron*' ! -path '/var/log/*'"

pytestmark = pytest.mark.skipif(why_no_machines() is not None, reason=why_no_machines() or "")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    packages = tmp_path_factory.mktemp("packages")
    found = list((ROOT / "dist").glob("etcron_*.deb"))
    assert found, "there is no package: make dist"
    (packages / "etcron.deb").write_bytes(found[0].read_bytes())
    (packages / "etcd").write_bytes(usual_etcd().read_bytes())
    (packages / "etcd").chmod(0o755)
    with machines({"one": "10.77.0.1"}, packages) as there:
        yield there["one"]


async def test_it_is_installed_used_and_leaves_nothing(machine: Machine) -> None:
    before_all = machine.does(LEFT).split()
    machine.does("dpkg -i /packages/etcron.deb")
    assert machine.does("etcron --version").startswith("etcron ")
    assert machine.does("stat -c '%a %U:%G' /etc/etcron/*.json").split("\n")[:2] == [
        "640 root:etcron-manager", "640 root:etcron",
    ]  # fmt: skip
    others = machine.tries("runuser -u etcron -- cat /etc/etcron/manager.json")
    assert "Permission denied" in others.stderr

    machine.does(SERVERS)
    machine.does("systemctl enable --now etcron-manager etcron-worker")

    def is_taken() -> bool:
        listed = machine.tries("etcron worker list -o json")
        return listed.returncode == 0 and any(worker["state"] == "accepting" for worker in json.loads(listed.stdout))

    await wait_until(is_taken, description="its worker takes fires", timeout=60, at_most_every_s=1)
    machine.does("etcron job save j --command 'id -un' --cron @yearly && etcron job run j --wait | grep '^etcron$'")

    machine.does("echo '{}' >/etc/etcron/worker.json")
    before = machine.does(MAIN_PID)
    machine.does("dpkg -i /packages/etcron.deb")
    assert machine.does("cat /etc/etcron/worker.json") == "{}\n", "what an administrator wrote stays"
    assert machine.does("stat -c %G /etc/etcron/worker.json") == "etcron\n"
    assert machine.does(MAIN_PID) != before, "the new one runs"

    machine.does("dpkg -r etcron")
    assert machine.tries("pgrep -f 'etcron/bin/etcron'").stdout == ""
    assert machine.does("ls /etc/etcron").split() == ["manager.json", "worker.json"]
    assert machine.does("ls -d /var/lib/etcron*").split() == ["/var/lib/etcron", "/var/lib/etcron-manager"]

    machine.does("dpkg -P etcron")
    assert machine.does(LEFT).split() == before_all
    assert machine.tries("id etcron").returncode != 0
    assert machine.tries("id etcron-manager").returncode != 0
