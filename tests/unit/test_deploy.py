"""`deploy/` and the walk-through that uses it: what its commands name is there, and what they write is valid.

`make five-machines` runs these commands.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cli.arguments import GROUPS, LOGIN_COMMANDS
from cli.errors import ExitStatus
from common.configuration.config import ManagerConfig, load_manager_config, load_worker_config
from tests.support.certificates import Authority
from tests.support.machines import Block, blocks
from tests.support.promql import expressions

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = blocks((ROOT / "docs" / "operate" / "five-machines.md").read_text())
UNITS = sorted(DEPLOY.glob("*.service"))
LOAD = {"manager": load_manager_config, "worker": load_worker_config}


def heredoc(name: str) -> tuple[str, Block]:
    """What a block writes into a file of ``/etc/etcron``."""
    for block in PAGE:
        if found := re.search(rf"cat >/etc/etcron/{name} <<END\n(.*?)^END$", block.text, re.MULTILINE | re.DOTALL):
            return found[1].replace("$(hostname)", "m3"), block
    raise AssertionError(f"no block writes {name}")


@pytest.mark.parametrize("block", PAGE, ids=lambda block: f"line {block.line}")
def test_each_block_is_for_bash_and_says_where_it_goes(block: Block) -> None:
    assert block.places, block.title
    assert subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False).stderr == ""


def test_each_file_and_unit_that_the_page_names_is_there() -> None:
    text = "".join(block.text for block in PAGE)
    files = set(re.findall(r"/usr/share/etcron/([\w.-]+)", text))
    assert {"etcd-roles.sh", "nginx.conf", "prometheus-alerts.yml"} <= files
    packed = (DEPLOY / "debian" / "build").read_text()
    for file in files:
        assert (DEPLOY / file).is_file(), file
        assert file in packed, file
    units = set(re.findall(r"systemctl [a-z]+ (?:--\S+ )*(etcron-\w+)", text))
    assert units == {"etcron-manager", "etcron-worker"}
    assert {f"{unit}.service" for unit in units} <= {unit.name for unit in UNITS}


def test_each_command_of_etcron_on_the_page_has_flags_that_there_are() -> None:
    found = [
        re.split(r" (?:[<>|&]|[0-9]>)|; ?", command)[0]
        for block in PAGE
        for command in re.findall(r"(?:^|[ ;])etcron ((?!\$)[a-z]+ .*)$", block.text, re.MULTILINE)
    ]
    assert len(found) > 10
    for command in found:
        words = shlex.split(command)
        if words[0] == "admin":  # its flags are those of a configuration
            continue
        module = "cli.login" if words[0] in LOGIN_COMMANDS else GROUPS[words[0]]
        # What xargs adds:
        added = ["hello"] if words[:2] in (["job", "pause"], ["job", "resume"]) else []
        importlib.import_module(module).parser().parse_args([*words[words[0] in GROUPS :], *added])


@pytest.mark.parametrize("program", LOAD)
def test_each_configuration_on_the_page_is_valid(tmp_path: Path, program: str) -> None:
    text, block = heredoc(f"{program}.json")
    authority = Authority(tmp_path / program)
    for name in ("client", "web"):
        authority.pair(name)
    installed = re.findall(rf"^install -m 640 -g \S+ (.*) /etc/etcron/{program}/$", block.text, re.MULTILINE)
    for name in installed[0].split():
        if name.endswith(".password"):
            (tmp_path / program / name).write_text("something")
        (tmp_path / program / name).chmod(0o640)
    for named in re.findall(rf'"{program}/([^"]+)"', text):
        assert named in installed[0].split(), "each file that it names is installed"
    file = tmp_path / f"{program}.json"
    file.write_text(text.replace("/etc/etcron/", f"{tmp_path}/"))

    config = LOAD[program](file, {})

    assert len(config.etcd_endpoints) == 3
    assert not config.notes


def test_proxy_of_one_server_calls_its_manager_and_no_other() -> None:
    page = (ROOT / "docs" / "operate" / "one-server.md").read_text()
    (made,) = re.findall(r"^sed (?:.*\\\n)?.*(?=>/etc/nginx/conf.d/)", page, re.MULTILINE)
    text = subprocess.run(["sh", "-ec", made], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    port = ManagerConfig().api_port
    assert re.findall(r"^    server (.*);$", text, re.MULTILINE) == [f"127.0.0.1:{port}"]
    assert re.findall(r"^ *(proxy_(?:pass|ssl)\S* .*);$", text, re.MULTILINE) == ["proxy_pass http://etcron"]


MACHINE = """
etcron() {
    case $1 in
    --version) echo "etcron $(cat version)" ;;
    backup) test ! -e "$2" && cp jobs "$2" ;;
    restore) cp "$2" jobs ;;
    esac
}
pip() { cp release version; }
systemctl() { :; }
mv() { :; }
"""
"""What stands for one server, in a directory: its jobs, its version, and the release whose directory it is."""


def test_an_upgrade_of_one_server_that_is_done_twice_keeps_the_way_back(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operate" / "one-server.md").read_text().replace("/opt/etcron/bin/", "")
    page = page.replace("/root/", f"{tmp_path}/").replace("cp deploy/etcron-up.service /etc/systemd/system/", "true")
    (upgrade,) = re.findall(r"^```sh\n([^`]*pip install --upgrade.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (back,) = re.findall(r"^```sh\n([^`]*/var/lib/etcron-before .*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "etcron-2.whl").touch()
    (tmp_path / "version").write_text("1")
    for release, jobs, block in (("2", "before", upgrade), ("2", "after", upgrade), ("1", "after", back)):
        (tmp_path / "release").write_text(release)
        (tmp_path / "jobs").write_text(jobs)
        subprocess.run(["sh", "-ec", MACHINE + block], cwd=tmp_path, check=True)
        assert (tmp_path / "version").read_text() == release
    assert (tmp_path / "jobs").read_text() == "before"


def test_the_scripts_of_the_package_are_for_sh() -> None:
    for name in ("postinst", "prerm", "postrm"):
        script = DEPLOY / "debian" / name
        assert subprocess.run(["sh", "-n", script], capture_output=True, check=False).stderr == b""


_USERS = {
    "getent": '[ -e "$HERE/$1/$2" ]',
    # As Debian's: 9, the name is in use; 8, a process of the user runs.
    "useradd": """case "$*" in *--user-group*) group=;; *--gid=*) group=${*#*--gid=}; group=${group%% *};; esac
        for user; do :; done
        if [ -z "$group" ]; then [ ! -e "$HERE/group/$user" ] || exit 9; : >"$HERE/group/$user"
        else [ -e "$HERE/group/$group" ] || exit 6; fi
        : >"$HERE/passwd/$user" """,
    "userdel": '[ ! -e "$HERE/busy" ] || exit 8; /bin/rm "$HERE/passwd/$1"',  # its group has another member, and stays
    "systemctl": ":", "rm": ":", "chgrp": ":", "stat": "echo 1:1",
}  # fmt: skip
"""What the scripts of the package call."""


def test_package_can_be_purged_and_installed_again_whoever_is_in_its_groups_and_whatever_runs(tmp_path: Path) -> None:
    for name in ("bin", "passwd", "group"):
        (tmp_path / name).mkdir()
    for name, script in _USERS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def called(script: str, step: str) -> int:
        command = ["/bin/sh", str(DEPLOY / "debian" / script), step, ""]
        given = {"PATH": str(tmp_path / "bin"), "HERE": str(tmp_path)}
        return subprocess.run(command, env=given, check=False).returncode

    def users() -> list[str]:
        return sorted(one.name for one in (tmp_path / "passwd").iterdir())

    both = ["etcron", "etcron-manager"]
    assert (called("postinst", "configure"), users()) == (0, both)
    assert (called("postrm", "purge"), users()) == (0, [])
    assert (called("postinst", "configure"), users()) == (0, both)
    (tmp_path / "busy").touch()
    assert (called("postrm", "purge"), users()) == (0, both)
    assert (called("postinst", "configure"), users()) == (0, both)


def test_a_worker_in_a_container_is_given_as_long_to_stop_as_its_unit_gives_it() -> None:
    (stop_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", (DEPLOY / "etcron-worker.service").read_text(), re.MULTILINE)
    worker = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["worker"]
    assert worker.get("stop_grace_period") == f"{stop_s}s"


def test_the_board_is_one_that_grafana_reads() -> None:
    """It asks for what there is: test_metrics.py, test_metrics_port.py; Prometheus answers: `make five-machines`."""
    panels = [where for where, _, _ in expressions() if where.startswith("panel ")]
    assert len(set(panels)) > 15


def test_fires_that_are_recorded_late_are_seen_by_when_their_record_is_made() -> None:
    [asked] = [expression for where, expression, _ in expressions() if where == "alert EtcronFiresMissed"]
    assert 'increase(etcron_records_total{status=~"missed|lost"}' in asked


def test_messages_that_wait_as_a_channel_fails_are_told_as_that_channel_alone() -> None:
    [asked] = [expression for where, expression, _ in expressions() if where == "alert EtcronMessagesWait"]
    assert re.search(r" > 900 unless .*\(etcron_channels_failing\) > 0$", asked), "as /readyz has it"


def test_fires_that_wait_on_several_workers_are_the_same_fires() -> None:
    waiting = {expression for _, expression, _ in expressions() if "etcron_worker_waiting_fires" in expression}
    assert waiting
    assert not any(re.search(r"\bsum\b", one) for one in waiting), "each worker holds them, where none has a slot"


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """With a program that is there: it is the package's."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/etcron/bin/etcron", "/bin/true"))
    return sorted(tmp_path.iterdir())


def test_systemd_takes_the_units(units: list[Path]) -> None:
    done = subprocess.run(["systemd-analyze", "verify", *map(str, units)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_another_program_holds_for_a_while_is_tried_again(unit: Path) -> None:
    """A data directory while a backup of it is made, a port: a start that they refuse ends with CONFLICT."""
    (final,) = re.findall(r"^RestartPreventExitStatus=(.*)$", unit.read_text(), re.MULTILINE)
    assert {int(status) for status in final.split()} <= {ExitStatus.USAGE, ExitStatus.REFUSED}


def test_the_managers_exposure_is_at_most_4(units: list[Path]) -> None:
    (manager,) = (unit for unit in units if unit.name == "etcron-manager.service")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=40", str(manager)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
