"""TLS, users and passwords in the configuration: where paths count from, what is refused, and what is never shown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli.__main__ import main
from common.configuration.config import file_object, load_manager_config, load_worker_config, shown
from common.configuration.flags import add_config_arguments
from common.connections import open_runlog
from common.errors import ConfigError
from common.tls import TlsFiles
from tests.support.certificates import Authority

SECRET = "hunter2"
URL = "https://etcd.test:2379"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


def _written(directory: Path, content: Mapping[str, object]) -> Path:
    path = directory / "manager.json"
    path.write_text(json.dumps(content))
    return path


def _problems(flags: Mapping[str, object], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_manager_config(None, environ or {}, flags)
    return {problem.field: str(problem) for problem in caught.value.problems}


def test_paths_count_from_the_file_that_names_them(tmp_path: Path, authority: Authority, password: Path) -> None:
    pair = authority.pair("me", "127.0.0.1")
    content = {
        "etcdEndpoints": [URL],
        "etcdTls": {"ca": "tls/ca.pem", "cert": "tls/me.pem", "key": "tls/me.key", "serverName": "etcd"},
        "etcdUser": "etcron", "etcdPasswordFile": "password", "tlsCert": "tls/me.pem", "tlsKey": "tls/me.key",
    }  # fmt: skip

    config = load_manager_config(_written(tmp_path, content), {})

    assert config.etcd_endpoints == (URL,)
    assert config.etcd_tls == TlsFiles(ca=authority.ca, cert=pair.cert, key=pair.key, server_name="etcd")
    assert (config.etcd_password_file, config.tls_key) == (password, pair.key)
    again = load_manager_config(_written(tmp_path, file_object(config)), {})
    assert file_object(again) == file_object(config)


def test_paths_of_flags_and_variables_count_from_where_one_is(
    tmp_path: Path, authority: Authority, password: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"ETCRON_CONFIG_ETCDPASSWORDFILE": "password", "ETCRON_CONFIG_ETCDUSER": "etcron"}

    config = load_worker_config(None, environ, {"etcdEndpoints": URL, "etcdTls": "ca=tls/ca.pem,serverName=etcd"})

    assert config.etcd_tls == TlsFiles(ca=authority.ca, server_name="etcd")
    assert config.etcd_password_file == password


@pytest.mark.parametrize(
    ("flags", "field", "words"),
    [
        ({"etcdEndpoints": "https://a:1,b:1"}, "etcdEndpoints", "all of them with https://, or none"),
        ({"etcdEndpoints": URL}, "etcdTls", "is needed"),
        ({"etcdTls": "ca=/dev/null"}, "etcdEndpoints", "write https://"),
        ({"etcdTls": {"ca": "a", "cart": "b"}}, "etcdTls", "an object such as"),
        ({"etcdTls": {"cert": "a"}}, "etcdTls", "ca is needed"),
        ({"etcdUser": "etcron"}, "etcdPasswordFile", "etcron has no password"),
        ({"etcdPasswordFile": "/dev/null"}, "etcdUser", "say whose password it is"),
        ({"etcdUser": "u", "etcdPasswordFile": "/nowhere"}, "etcdPasswordFile", "/nowhere does not exist"),
        ({"etcdUser": "u", "etcdPasswordFile": "/dev/null"}, "etcdPasswordFile", "one line of text"),
        ({"tlsCert": "/nowhere"}, "tlsKey", "is missing"),
        ({"tlsCert": "/nowhere", "tlsKey": "/nowhere"}, "tlsCert", "does not exist"),
        ({"mongodbPasswordFile": "/dev/null"}, "mongodbUri", "without a password"),
    ],
)
def test_what_does_not_fit_is_told_with_its_key(flags: Mapping[str, object], field: str, words: str) -> None:
    assert words in _problems(flags)[field]


def test_of_a_value_that_is_none_its_default_is_not_told() -> None:
    with pytest.raises(ConfigError) as raised:
        load_manager_config(None, environ={}, flags={"etcdEndpoints": "https://a:1,b:1", "etcdTls": "ca=/dev/null"})
    assert [one.field for one in raised.value.problems if "127.0.0.1" in str(one)] == []


def test_a_password_and_a_file_for_it_are_one_too_many(password: Path) -> None:
    flags = {"etcdUser": "u", "etcdPasswordFile": str(password)}
    assert "too" in _problems(flags, {"ETCRON_CONFIG_ETCDPASSWORD": SECRET})["etcdPassword"]


def test_no_flag_takes_a_password() -> None:
    parser = argparse.ArgumentParser()
    add_config_arguments(parser, "worker")
    assert "--etcd-password " not in parser.format_help()
    assert "--etcd-password-file " in parser.format_help()


@pytest.mark.parametrize(
    "content",
    [
        {"etcdUser": f"etcron:{SECRET}"},
        {"etcdPassword": [SECRET]},
        {"etcdTls": {"ca": "a", "key": f"-----BEGIN\n{SECRET}"}},
        {"etcdTls": SECRET},
        {"tlsKey": f"-----BEGIN PRIVATE KEY\n{SECRET}", "tlsCert": "/nowhere"},
    ],
)
def test_a_mistake_with_a_secret_in_it_is_told_without(tmp_path: Path, content: Mapping[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_manager_config(_written(tmp_path, content), {})
    assert SECRET not in str(caught.value) + repr(caught.value.problems)


def test_no_password_is_shown(
    tmp_path: Path, password: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "etcdEndpoints": [URL], "etcdTls": {"ca": str(authority.ca)}, "etcdUser": "etcron", "etcdPassword": SECRET,
        "mongodbUri": "mongodb://etcron@127.0.0.1", "mongodbPasswordFile": str(password),
    }  # fmt: skip
    path = _written(tmp_path, content)
    config = load_manager_config(path, {})

    assert main(["config", "show", "manager", "--config", str(path)]) == 0
    printed = capsys.readouterr().out

    values = {key: value for key, value, _ in shown(config)}
    assert (values["etcdUser"], values["etcdPassword"], values["mongodbPasswordFile"]) == (
        '"etcron"', '"***"', f'"{password}"',
    )  # fmt: skip
    assert json.loads(values["etcdTls"]) == {"ca": str(authority.ca)}
    assert SECRET not in printed + repr(config) + str(values)
    assert (
        dict.fromkeys(["etcdPassword"], "null").items()
        <= {k: v for k, v, _ in shown(load_manager_config(None, {}))}.items()
    )


def test_what_works_and_should_not_stay_so_is_noted(password: Path) -> None:
    password.chmod(0o644)
    flags = {
        "etcdEndpoints": "etcd.test:2379", "etcdUser": "u", "etcdPasswordFile": str(password),
        "mongodbUri": f"mongodb://u:{SECRET}@h",
    }  # fmt: skip
    notes = load_worker_config(None, {}, flags).notes
    assert [note for note in notes if "crosses the network" in note]
    assert [note for note in notes if "list of processes" in note]
    assert [note for note in notes if "chmod" in note]
    assert SECRET not in str(notes)


async def test_user_password_and_tls_reach_the_driver(tmp_path: Path, password: Path, authority: Authority) -> None:
    pair = authority.pair("me")
    both = tmp_path / "both.pem"
    both.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    options = f"tls=true&tlsCAFile={authority.ca}&tlsCertificateKeyFile={both}&authSource=admin"
    config = load_worker_config(
        None, {}, {"mongodbUri": f"mongodb://etcron@h/?{options}", "mongodbPasswordFile": str(password)}
    )
    async with open_runlog(config) as runlog:
        parsed = runlog._client.options
        credentials = parsed.pool_options._credentials
        assert credentials is not None
        assert (credentials.username, credentials.password, credentials.source) == ("etcron", SECRET, "admin")
        assert parsed.pool_options._ssl_context is not None
        assert SECRET not in repr(runlog._client)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("tls=true&tlsCAFile=/nowhere", "/nowhere does not exist"),
        ("tls=true&tlsCAFile=/dev/null", "TLS options do not work"),
        ("tls=perhaps", "option for TLS"),
        ("tls=true&tlsCaFiel=/dev/null", "option for TLS"),
    ],
)
async def test_tls_to_mongodb_that_cannot_work_is_told_at_start(options: str, words: str) -> None:
    config = load_worker_config(None, {}, {"mongodbUri": f"mongodb://u:{SECRET}@h/?{options}"})
    with pytest.raises(ConfigError, match=words) as caught:
        open_runlog(config)
    assert "mongodbUri" in caught.value.problems[0].field
    assert SECRET not in str(caught.value)
