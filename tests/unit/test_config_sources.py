"""Where a value comes from, and what is said about every mistake at once."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest

from common.access.callers import AuthMode
from common.configuration.config import ManagerConfig, file_object, load_manager_config, load_worker_config, shown
from common.configuration.flags import add_config_arguments, config_flags, config_path, explain
from common.errors import ConfigError


def _written(directory: Path, content: object) -> Path:
    path = directory / "manager.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def _problems(path: Path | None, environ: dict[str, str] | None = None, **flags: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_manager_config(path, environ or {}, flags)
    return {problem.field: str(problem) for problem in caught.value.problems}


def _origins(config: ManagerConfig) -> dict[str, str]:
    return {name: origin for name, _, origin in shown(config)}


def test_defaults_are_those_of_the_documentation() -> None:
    manager, worker = load_manager_config(None, {}), load_worker_config(None, {})

    assert (manager.host, manager.api_port, manager.key_prefix) == ("127.0.0.1", 8070, "/etcron")
    assert (worker.job_log_batch_size, worker.job_log_commit_timeout_ms) == (100, 1000)
    assert (worker.bash_path, worker.path, worker.worker_name) == ("/bin/sh", "/usr/bin:/bin", None)
    assert manager.timings.problems() == []


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    path = _written(tmp_path, {"apiPort": 1, "hedgeMs": 600, "claimLeadMs": 100})
    environ = {"ETCRON_CONFIG_APIPORT": "2", "ETCRON_CONFIG_HEDGEMS": "700"}

    config = load_manager_config(path, environ, {"apiPort": "3"})

    assert (config.api_port, config.hedge_ms, config.claim_lead_ms) == (3, 700, 100)
    origins = _origins(config)
    assert origins["apiPort"] == "flag --api-port"
    assert origins["hedgeMs"] == "environment ETCRON_CONFIG_HEDGEMS"
    assert origins["claimLeadMs"] == f"file {path}"
    assert origins["leaseTtlSeconds"] == "default"


@pytest.mark.parametrize("said", ["geheim", "ge@heim", "ge/he:im,x", "ge heim"])
@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
def test_password_in_an_endpoint_is_never_repeated(tmp_path: Path, said: str, scheme: str) -> None:
    endpoint = f"{scheme}root:{said}@etcd-1:2379"
    told = [
        _problems(_written(tmp_path, {"etcdEndpoints": ["etcd-0:2379", endpoint]})),
        _problems(_written(tmp_path, {"etcdEndpoints": endpoint})),
        _problems(None, {"ETCRON_CONFIG_ETCDENDPOINTS": f"etcd-0:2379,{endpoint}"}),
        _problems(None, etcdEndpoints=endpoint),
    ]
    for problems in told:
        assert not any(part in str(problems) for part in ("geheim", "heim", "ge@", "root:"))
        assert "***@etcd-1:2379" in problems["etcdEndpoints"]
        assert "etcdUser and etcdPasswordFile" in problems["etcdEndpoints"]


def test_null_in_a_file_leaves_a_key_out(tmp_path: Path) -> None:
    config = load_manager_config(_written(tmp_path, {"etcdPassword": None, "apiPort": None, "hedgeMs": 600}), {})
    assert (config.etcd_password, config.api_port, config.hedge_ms) == (None, 8070, 600)
    assert _origins(config)["apiPort"] == "default"


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    path = _written(
        tmp_path,
        {
            "apiPort": "80a",
            "etcdEndpoint": [],
            "hedgeMs": True,
            "slots": 3,
            "host": "0.0.0.0",
            "auth": "off",
            "leaseTtlSeconds": 400,
        },
    )

    told = _problems(path, {"ETCRON_CONFIG_APIPROT": "1"})

    assert set(told) == {
        "apiPort",
        "etcdEndpoint",
        "hedgeMs",
        "slots",
        "host",
        "lostAfterSeconds",
        "ETCRON_CONFIG_APIPROT",
    }
    assert str(path) in told["apiPort"]
    assert '"80a"' in told["apiPort"]
    assert "a whole number from 0 to 65535" in told["apiPort"]
    assert "did you mean etcdEndpoints?" in told["etcdEndpoint"]
    assert "did you mean ETCRON_CONFIG_APIPORT?" in told["ETCRON_CONFIG_APIPROT"]
    assert "not a key of a manager" in told["slots"]


def test_key_that_is_like_no_other_is_told_with_the_page_that_has_them_all(tmp_path: Path) -> None:
    told = _problems(_written(tmp_path, {"xyzzyxyzzy": 1}))["xyzzyxyzzy"]
    (page,) = re.findall(r"\S+\.md", told)
    assert "| `etcdEndpoints` |" in (Path(__file__).parents[2] / page).read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("{not json", "is not JSON (line 1, column 2", id="not JSON"),
        pytest.param("[]", "not an object", id="not an object"),
        pytest.param('{"apiPort": 1, "apiPort": 2}', "the key apiPort twice", id="a key twice"),
        pytest.param("", "is not JSON", id="empty"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: str, said: str) -> None:
    path = _written(tmp_path, content)

    assert said in _problems(path)[str(path)]


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "manager.json"
    path.write_bytes(b'{"host": "\xff"}')

    assert "is not UTF-8" in _problems(path)[str(path)]


def test_keys_of_the_parent_that_do_nothing_are_noted(tmp_path: Path) -> None:
    content = {"etcdEndpointsCluster": ["10.0.0.1:2379"], "winBashPath": "C:/bash.exe", "jobLogBatchSize": 100}

    config = load_manager_config(_written(tmp_path, content), {})

    assert len(config.notes) == 3


def test_other_variables_of_etcron_are_no_error() -> None:
    load_manager_config(None, {"ETCRON_FAILPOINT": "after_claim:kill", "ETCRON_CONFIG_SLOTS": "3"})


@pytest.mark.parametrize("auth", ["off", "warn"])
def test_listening_beyond_this_machine_without_login_has_to_be_allowed(auth: str) -> None:
    assert "allowUnauthenticated" in _problems(None, host="0.0.0.0", auth=auth)["host"]

    config = load_manager_config(None, {}, {"host": "0.0.0.0", "auth": auth, "allowUnauthenticated": "true"})

    assert config.auth == auth
    assert "without login" in config.notes[0]


def test_listening_beyond_this_machine_with_a_login_needs_no_permission() -> None:
    assert load_manager_config(None, {}, {"host": "0.0.0.0", "auth": "required"}).notes == ()


def test_who_let_everybody_in_before_there_was_a_login_still_does() -> None:
    config = load_manager_config(None, {}, {"host": "0.0.0.0", "allowUnauthenticated": "true"})

    assert config.auth is AuthMode.OFF
    assert "two releases" in config.notes[0]
    assert "without login" in config.notes[1]


@pytest.mark.parametrize("path", ["/" + 107 * "x", "", "a\0b"])
def test_path_that_no_socket_can_have_is_refused(path: str) -> None:
    assert "107 bytes" in _problems(None, socket=path)["socket"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert load_manager_config(None, {}, {"host": host}).notes == ()


def test_flags_are_the_same_table_and_config_may_be_spelt_as_the_parent_does(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_config_arguments(parser, "worker")

    parsed = parser.parse_args(["-config", str(tmp_path / "w.json"), "--labels", "zone=eu", "--lease-ttl-seconds", "9"])

    assert config_flags(parsed, "worker") == {"labels": "zone=eu", "leaseTtlSeconds": "9"}
    assert config_path(parsed, "worker") == tmp_path / "w.json"


def test_the_usual_file_is_read_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = argparse.ArgumentParser()
    add_config_arguments(parser, "manager")
    monkeypatch.chdir(tmp_path)
    assert config_path(parser.parse_args([]), "manager") is None

    _written(tmp_path, {})

    assert config_path(parser.parse_args([]), "manager") == Path("manager.json")


def test_the_examples_of_the_repository_are_valid() -> None:
    root = Path(__file__).parents[2]

    assert load_manager_config(root / "manager.json", {}).notes == ()
    assert load_worker_config(root / "worker.json", {}).notes == ()


def test_a_configuration_written_to_a_file_comes_back_the_same(tmp_path: Path) -> None:
    config = load_worker_config(None, {}, {"labels": "zone=eu", "dataDir": str(tmp_path), "slots": "3"})

    again = load_worker_config(_written(tmp_path, file_object(config)), {})

    assert file_object(again) == file_object(config)
    assert again.data_dir == tmp_path


def test_mistakes_are_explained_one_a_line() -> None:
    with pytest.raises(ConfigError) as caught:
        load_manager_config(None, {}, {"apiPort": "x", "logLevel": "loud"})

    assert explain(caught.value).count("\n") == 2
