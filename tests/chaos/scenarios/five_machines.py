"""docs/operate/five-machines.md, line by line, on seven machines that are namespaces; then one of each kind is lost.

Takes some ten minutes. Needs root. What stands in for what is said at the end of that page.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines import Block, Machine, blocks, machines, why_no_machines
from tests.support.promql import expressions
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operate" / "five-machines.md"
ADDRESSES = {
    **{f"m{n}": f"10.77.0.{n}" for n in range(1, 7)},
    "your computer": "10.77.0.9",
}
LOG_STORE = """
systemd-run --quiet --unit=log-store --property=WorkingDirectory=/opt/etcron /opt/etcron/bin/python -P \\
    -m cli.processes.embedded_log_store --host 0.0.0.0 --data-dir /var/lib/log-store \\
    --log-file /var/log/log-store.log --pid-file /run/log-store.pid
"""
PROMETHEUS = """
dpkg-deb -x /packages/prometheus_*.deb prometheus && cd keys
{ echo 'global: {scrape_interval: 2s, evaluation_interval: 2s}' && cat prometheus.yml; } >often.yml
../prometheus/usr/bin/promtool check config often.yml
systemd-run --quiet --unit=prometheus --property=WorkingDirectory="$PWD" /root/prometheus/usr/bin/prometheus \\
    --config.file=often.yml --storage.tsdb.path=/var/tmp/prometheus --web.listen-address=127.0.0.1:9090
"""
OTHERS = """
etcron job save ended --command true --cron '* * * * * * *' --set endAt=$(date -u -d '+10 seconds' +%FT%TZ)
etcron job save follows --command true --set after=1h
etcron job save at-boot --command true --cron @reboot --set broadcast=true
etcron job save asked --command 'echo "$ETCRON_RUN_ID" >>/packages/asked' --cron @yearly
etcron job run asked --at "$(date -u -d '+20 seconds' +%FT%TZ)"
etcron job save again --command 'echo "$ETCRON_RUN_ID" >>/packages/again; sleep 20' --cron @yearly \\
    --set onWorkerLost=rerun --set lostAfterSeconds=20
etcron job run again
until [ -s /packages/again ]; do sleep 1; done
"""
BY_M2 = """
for call in 1 2 3 4 5 6 7 8; do
    curl --silent --fail --max-time 15 --cacert keys/ca.pem --resolve etcron.example.org:443:10.77.0.2 \\
        https://etcron.example.org/livez
done
"""
"""Calls by m2's nginx, which turns to m1's manager and m2's."""
ENABLED = "etcron job list -o json | jq -r '.[] | select(.spec.enabled) | .name'"
EVIDENCE = 'echo "$ETCRON_PLAN_MS $(hostname)" >>/packages/evidence'

pytestmark = pytest.mark.skipif(why_no_machines() is not None, reason=why_no_machines() or "")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's, and ours as `make dist` builds it."""
    directory = tmp_path_factory.mktemp("packages")
    debian = ["nginx", "nginx-common", "etcd-server", "etcd-client", "cron", "cron-daemon-common", "prometheus"]
    had = subprocess.run(
        ["apt-get", "-qq", "download", *debian], cwd=directory, capture_output=True, text=True, check=False
    )
    if had.returncode:
        pytest.skip(f"packages of Debian cannot be had here: {had.stderr}")
    (package,) = (ROOT / "dist").glob("etcron_*.deb")
    (directory / package.name).write_bytes(package.read_bytes())
    directory.chmod(0o755)
    for name in ("evidence", "asked", "again"):
        (directory / name).touch()
        (directory / name).chmod(0o666)
    return directory


@pytest.fixture(scope="module")
def cluster(packages: Path) -> Iterator[dict[str, Machine]]:
    names = {name.replace("your computer", "desk"): address for name, address in ADDRESSES.items()}
    with machines(names, packages) as found:
        found["desk"].does("mkdir etcron && mkdir -p -m 700 .ssh && touch .ssh/known_hosts")
        yield {**found, "your computer": found["desk"]}


def with_our_log_store(text: str) -> str:
    """MongoDB's address is that of the log store on m3, which knows no users and no TLS."""
    text = re.sub(r" m\d:27017", "", text)
    text = re.sub(r'"mongodb://(?:manager|worker)@m3,m4,m5/[^"]*"', '"mongodb://m3:27017"', text)
    return re.sub(r'^ *"mongodbPasswordFile": .*\n', "", text, flags=re.MULTILINE)


def follows(cluster: dict[str, Machine], block: Block, *, only: str | None = None, after: str = "") -> None:
    """On each machine that the title names, in the directory where the block before has left its shell."""
    text = after + with_our_log_store(block.text)
    for place in [only] if only else places(cluster, block):
        print(f"{block.section}: {place} (line {block.line})", flush=True)  # noqa: T201
        cluster[place].does(f"cd \"$(cat .stands-in 2>/dev/null || pwd)\"\ntrap 'pwd >/root/.stands-in' EXIT\n{text}")


def places(cluster: dict[str, Machine], block: Block) -> list[str]:
    """Where it is pasted; every worker's machine has its keys."""
    if block.places != ["every worker"]:
        return block.places
    return cluster["your computer"].does("cd keys && dirname */mongodb-worker.password").split()


def sections(*names: str) -> list[Block]:
    """The blocks of these that can be followed here."""
    return [
        block for block in blocks(PAGE.read_text())
        if block.section.split(".")[0] in names and "MongoDB" not in block.section + block.title
    ]  # fmt: skip


class Evidence:
    """What the job of each second wrote down: the fire, and where it ran."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def runs(self) -> list[tuple[int, str]]:
        """(planned at, machine) of each, in the order of their starts."""
        return [(int(plan), machine) for plan, machine in map(str.split, self._file.read_text().splitlines())]

    async def goes_on(self, *, on: Set[str] = frozenset(), fires: int = 10) -> None:
        """Until so many more have run, on each of these machines too."""
        before = len(self.runs())
        await wait_until(
            lambda: len(self.runs()) >= before + fires and on <= {machine for _, machine in self.runs()[before:]},
            description=f"{fires} more fires after {before}, on {on or 'some machine'}: {self.runs()[before:]}",
            timeout=120,
        )  # fmt: skip

    def twice(self) -> list[int]:
        return [plan for plan, times in Counter(plan for plan, _ in self.runs()).items() if times > 1]

    def left_out(self) -> list[int]:
        """Seconds between the first and the last that have no run."""
        plans = {plan for plan, _ in self.runs()}
        return [plan for plan in range(min(plans), max(plans), 1000) if plan not in plans]


async def test_the_page_is_followed_and_one_of_each_kind_is_lost(cluster: dict[str, Machine], packages: Path) -> None:
    desk, evidence = cluster["your computer"], Evidence(packages / "evidence")
    for block in sections("1", "2", "3", "4"):
        follows(cluster, block)
    cluster["m3"].does(LOG_STORE)
    for block in sections("6", "7", "8", "9", "10", "11"):
        follows(cluster, block)
    # So that an outage of etcd, while it elects a leader, makes fires late and leaves none out.
    desk.does(f"etcron job save evidence --command '{EVIDENCE}' --cron '* * * * * * *' --overlap allow")
    await evidence.goes_on(on={"m3", "m4", "m5"}, fires=20)
    assert evidence.left_out() == []
    await prometheus_answers(desk)

    desk.does(BY_M2)
    cluster["m1"].loses_power()
    desk.does(BY_M2)
    cluster["m4"].loses_power()
    await evidence.goes_on(on={"m3", "m5"}, fires=30)
    assert "etcron" in desk.does("curl --silent --fail --cacert keys/ca.pem https://etcron.example.org/")
    assert "hello" in desk.does("etcron job list")
    desk.does(
        "etcron login --profile again --server https://etcron.example.org --ca keys/ca.pem --user admin"
        " --password-stdin <keys/admin.password && etcron job run hello --wait --profile again"
    )
    await wait_until(
        lambda: "gone" in desk.does("etcron worker list"), description="m4 is said to be gone", timeout=60
    )  # fmt: skip
    assert evidence.twice() == []
    open_on_m4 = desk.does("etcron run list --job evidence --worker m4 --status running,lost -o json")
    taken_along = {run["id"] for run in json.loads(open_on_m4)}
    assert {f"evidence@{plan}#1" for plan in evidence.left_out()} <= taken_along, "else each fire ran"
    tells(evidence, "with one of each kind lost")

    for name in ("m1", "m4"):
        cluster[name].boots()
    await evidence.goes_on(on={"m3", "m4", "m5"}, fires=20)
    desk.does(OTHERS)
    follows(cluster, sections("12")[0])
    cluster["m1"].does("systemctl is-active cron")
    desk.does("until etcron job show ended -o json | jq --exit-status '.nextFire == null'; do sleep 1; done")
    asked = packages / "asked"
    await wait_until(lambda: bool(asked.read_text()), description="what was asked for has run", timeout=60)
    await is_restored(cluster, evidence, workers={"m3", "m4", "m5"})
    assert len(asked.read_text().splitlines()) == 1, "it waits in the snapshot, and has run since"

    *blocks_before, on_it = sections("17")
    for block in [*blocks_before, *sections("1"), on_it, *sections("8")]:
        follows(cluster, block, only=None if block in blocks_before else "m6")
    for block in sections("14"):
        follows(cluster, block)
    workers = {"m3", "m4", "m5", "m6"}
    await evidence.goes_on(on=workers)

    cluster["m2"].is_replaced(desk)
    cluster["m2"].boots()
    follows(cluster, *sections("1"), only="m2")
    *blocks_before, before_etcd, start = sections("15")
    for block in blocks_before:
        follows(cluster, block)
    for block in (sections("4")[0], sections("6")[0], *sections("7")):
        assert "m2" in block.places
        follows(cluster, block, only="m2", after=before_etcd.text)
    follows(cluster, start)
    asks = ". ./etcdctl.env; etcdctl endpoint health --cluster 2>&1 || true"
    await wait_until(
        lambda: cluster["m1"].does(asks).count("is healthy") == 3, description="three members are healthy", timeout=60
    )
    await evidence.goes_on()

    tells(evidence, "with an upgrade, and a member replaced")
    await is_restored(cluster, evidence, workers=workers)
    tells(evidence, "with two restores")

    before = dates_served(desk)
    for block in sections("16"):
        follows(cluster, block)
    await wait_until(
        lambda: set(dates_served(desk)) & set(before) == set(), description="each certificate is a new one", timeout=60
    )  # fmt: skip
    await evidence.goes_on(on=workers, fires=20)
    desk.does("etcron job run hello --wait")
    assert evidence.twice() == []
    assert len((packages / "again").read_text().splitlines()) == 1, "it went on in the snapshot, and has ended since"


def dates_served(desk: Machine) -> list[str]:
    """Where, and until when, by the page's own block: three members of etcd, two managers and proxies, six clients."""
    printed = desk.does(with_our_log_store(sections("16")[0].text))
    found = re.findall(r"^m\d(?::\d+)? notAfter=.*$", printed, re.MULTILINE)
    assert len(found) == 7 + 6, printed
    return found


async def is_restored(cluster: dict[str, Machine], evidence: Evidence, *, workers: Set[str]) -> None:
    """What was made since the backup is gone, on members that none of those before can join; no snapshot lies about."""
    desk = cluster["your computer"]
    desk.does("etcron job save newer --command true --cron '0 0 1 1 *'")
    before, enabled = id_of_etcd(cluster["m1"]), desk.does(ENABLED)
    for block in sections("13"):
        follows(cluster, block)
    assert id_of_etcd(cluster["m1"]) != before
    assert set(enabled.split()) - set(desk.does(ENABLED).split()) <= {"newer", "ended"}, "what fires again is resumed"
    assert "newer" not in desk.does("etcron job list")
    assert {cluster[name].does("ls /root/*.db restore 2>/dev/null || true") for name in ADDRESSES} == {""}
    await evidence.goes_on(on=workers, fires=20)
    assert evidence.twice() == []


def id_of_etcd(member: Machine) -> int:
    """Its cluster's."""
    asks = "ETCDCTL_USER=root:$(cat keys/etcd-root.password) etcdctl endpoint status -w json"
    answer, *_ = json.loads(member.does(f". ./etcdctl.env; {asks}"))
    found: int = answer["Status"]["header"]["cluster_id"]
    return found


def tells(evidence: Evidence, when: str) -> None:
    twice, left_out = evidence.twice(), evidence.left_out()
    print(f"{when}: {len(evidence.runs())} runs, {len(twice)} twice, {len(left_out)} seconds left out", flush=True)  # noqa: T201


async def prometheus_answers(desk: Machine) -> None:
    """The real one, with the configuration of the page: it reaches all, and every panel of the board has data."""
    desk.does(PROMETHEUS)

    def asks(path: str, query: str = "") -> Any:
        ask = f"curl -sSG --fail --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:9090/api/v1/{path}"
        return json.loads(desk.does(f"{ask} --data-urlencode 'query={query}'"))

    def are_up() -> bool:
        health = [target["health"] for target in asks("targets")["data"]["activeTargets"]]
        return health == ["up"] * 5

    await wait_until(are_up, description="Prometheus reaches two managers and three workers", timeout=60)
    for where, expression, _ in expressions():

        def is_answered(expression: str = expression, where: str = where) -> bool:
            answer = asks("query", expression)
            assert answer["status"] == "success", (where, answer)
            return where.startswith("alert") or bool(answer["data"]["result"])

        await wait_until(is_answered, description=f"{where} shows something", timeout=60)
    assert asks("rules")["data"]["groups"][0]["rules"], "the alerts are known"
