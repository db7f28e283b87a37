"""What a key may hold, and what is never shown of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.configuration.config import ManagerConfig, load_manager_config, load_worker_config, shown
from common.configuration.files import File
from common.configuration.keys import (
    Directory,
    Endpoints,
    Kind,
    OneOf,
    Pairs,
    SocketPath,
    Truth,
    UnfitError,
    WholeNumber,
    redact_uri,
)
from common.errors import ConfigError

_PORT = WholeNumber(1, 9)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (_PORT, "9", 9),
        (Truth(), "TRUE", True),
        (OneOf(("info", "error")), "INFO", "info"),
        (Endpoints(), "a:1, http://b:2/,[::1]:3", ("a:1", "b:2", "[::1]:3")),
        (Pairs(), "zone=eu, gpu=a=b", {"zone": "eu", "gpu": "a=b"}),
        (Pairs(), "", {}),
    ],
)
def test_reads_text(kind: Kind, text: str, value: object) -> None:
    assert kind.read(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (_PORT, "0"),
        (_PORT, "10"),
        (_PORT, "1.5"),
        (_PORT, "\u0661"),
        (_PORT, "9" * 5000),
        (_PORT, ""),
        (Truth(), "yes"),
        (OneOf(("info",)), "loud"),
        (Endpoints(), ""),
        (Endpoints(), "localhost"),
        (Endpoints(), "a:0"),
        (Endpoints(), "a:65536"),
        (Endpoints(), "https://a:1,b:1"),
        (Endpoints(), "user:pass@a:1"),
        (Pairs(), "zone"),
        (Pairs(), "=eu"),
    ],
)
def test_refuses_text(kind: Kind, text: str) -> None:
    with pytest.raises(UnfitError):
        kind.read(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (_PORT, True),
        (_PORT, "5"),
        (_PORT, 5.0),
        (_PORT, None),
        (Truth(), 1),
        (Truth(), "true"),
        (Endpoints(), "a:1"),
        (Endpoints(), [1]),
        (Pairs(), {"zone": 1}),
        (Pairs(), []),
    ],
)
def test_refuses_another_type(kind: Kind, value: object) -> None:
    with pytest.raises(UnfitError):
        kind.accept(value)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://u:hunter2@h:1/db", "mongodb://u:***@h:1/db"),
        ("mongodb://u:hunter2@x@y/z@h", "mongodb://u:***@h"),
        ("mongodb://u:hun/ter2@h", "mongodb://u:***@h"),
        (
            "mongodb://h/?tlsCertificateKeyFilePassword=hunter2&w=1",
            "mongodb://h/?tlsCertificateKeyFilePassword=***&w=1",
        ),
        ("mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:hunter2", None),
        ("mongodb://h:27017", "mongodb://h:27017"),
        ("mongodb://[::1]:27017,h:1/db", "mongodb://[::1]:27017,h:1/db"),
    ],
)
def test_a_password_in_a_uri_is_not_shown(uri: str, expected: str | None) -> None:
    redacted = redact_uri(uri)

    assert "hunter2" not in redacted
    assert expected is None or redacted == expected


def test_a_password_appears_nowhere() -> None:
    good, bad = "mongodb://u:hunter2@h", "http://u:hunter2@h"
    config = load_manager_config(None, {}, {"mongodbUri": good})
    with pytest.raises(ConfigError) as caught:
        load_manager_config(None, {"ETCRON_CONFIG_MONGODBURI": bad}, {"mongodbUri": bad})

    assert config.mongodb_uri == good
    assert "hunter2" not in repr(config) + str(list(shown(config))) + str(caught.value)


@pytest.mark.parametrize("prefix", ["etcron", "/", "/etcron/", "/a//b", "", "/a b"])
def test_a_prefix_that_is_no_path_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="keyPrefix"):
        load_manager_config(None, {}, {"keyPrefix": prefix})


def test_a_data_directory_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert load_worker_config(None, {}, {"dataDir": "~/x"}).data_dir == tmp_path / "x"
    assert load_worker_config(None, {}, {"dataDir": "x"}).data_dir == tmp_path / "x"
    assert load_worker_config(None, {}).data_dir == tmp_path / ".local/share/etcron/worker"


def test_a_directory_in_a_file_counts_from_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "etc" / "manager.json"
    file.parent.mkdir()
    file.write_text('{"auditDir": "audit", "socket": "run/s"}')
    monkeypatch.chdir(tmp_path)

    config = load_manager_config(file, {})
    assert (config.audit_dir, config.socket) == (tmp_path / "audit", tmp_path / "run" / "s")


@pytest.mark.parametrize("kind", [Directory(), File(), SocketPath()])
def test_a_home_of_nobody_is_refused(kind: Kind) -> None:
    with pytest.raises(UnfitError, match="path"):
        kind.read("~no such user/x")


def test_every_value_is_shown_with_its_origin() -> None:
    names = [name for name, _, _ in shown(ManagerConfig())]

    assert names[0] == "etcdEndpoints"
    assert len(names) == len(set(names))
    assert "etcdTls" in names
