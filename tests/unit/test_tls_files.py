"""Certificates and keys that are no good are found before anything starts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.__main__ import main
from common.etcd.certificates import Certificates
from common.tls import TlsFiles, client_problems, pair_problems
from tests.support.certificates import Authority, Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def _text(directory: Path, text: str) -> Path:
    path = directory / "text.pem"
    path.write_text(text)
    return path


Spoilt = Callable[[Authority, Path], Pair]


@pytest.mark.parametrize("server_side", [True, False])
def test_a_good_pair_has_no_problems(authority: Authority, server_side: bool) -> None:
    pair = authority.pair("good", "127.0.0.1")
    assert pair_problems("tlsCert", pair.cert, "tlsKey", pair.key, server_side=server_side) == []


@pytest.mark.parametrize("server_side", [True, False])
@pytest.mark.parametrize(
    ("spoilt", "field", "words"),
    [
        pytest.param(
            lambda a, d: Pair(d / "gone.pem", a.pair("x").key), "tlsCert", "gone.pem does not exist", id="no-file"
        ),
        pytest.param(lambda a, d: Pair(d, a.pair("x").key), "tlsCert", "cannot be read", id="directory"),
        pytest.param(
            lambda a, d: Pair(a.pair("x").cert, a.pair("y").key), "tlsKey", "is not the key of", id="wrong-pair"
        ),
        pytest.param(lambda a, d: a.pair("x", expired=True), "tlsCert", "certificate has expired", id="expired"),
        pytest.param(
            lambda a, d: Pair(_text(d, "x"), a.pair("x").key), "tlsCert", "no certificate in PEM", id="no-certificate"
        ),
        pytest.param(lambda a, d: Pair(a.pair("x").cert, _text(d, "x")), "tlsKey", "no key in PEM", id="no-key"),
    ],
)
def test_a_pair_that_is_no_good_is_told_with_its_key(
    authority: Authority, tmp_path: Path, spoilt: Spoilt, field: str, words: str, server_side: bool
) -> None:
    pair = spoilt(authority, tmp_path)
    [problem] = pair_problems("tlsCert", pair.cert, "tlsKey", pair.key, server_side=server_side)
    assert problem.field == field
    assert words in problem.message
    assert problem.remedy


@pytest.mark.parametrize("command", [("start", "manager"), ("start", "worker"), ("config", "show", "worker")])
@pytest.mark.parametrize(
    ("dates", "more", "status"),
    [({"expired": True}, {}, 1), ({"early": True}, {}, 1), ({"early": True}, {"keyPrefix": "no"}, 2)],
    ids=["expired", "not valid yet", "and another mistake"],
)
def test_a_certificate_out_of_its_dates_is_tried_again(
    authority: Authority, tmp_path: Path, command: tuple[str, ...], dates: dict[str, bool], more: dict[str, str],
    status: int,
) -> None:  # fmt: skip
    files = authority.files(authority.pair("x", **dates)).to_json()
    config = {"etcdEndpoints": ["https://127.0.0.1:1"], "etcdTls": files, **more}
    (path := tmp_path / "config.json").write_text(json.dumps(config))
    assert main([*command, "--config", str(path)]) == status


def test_every_mistake_of_a_client_is_told_at_once(authority: Authority, tmp_path: Path) -> None:
    expired = authority.pair("x", expired=True)
    files = TlsFiles(ca=tmp_path / "gone.pem", cert=expired.cert, key=expired.key)
    assert [problem.field for problem in client_problems("etcdTls", files)] == ["etcdTls.ca", "etcdTls.cert"]


def test_half_a_pair_is_a_mistake(authority: Authority) -> None:
    [problem] = client_problems("etcdTls", TlsFiles(ca=authority.ca, cert=authority.pair("x").cert))
    assert "no key" in problem.message


def test_a_ca_that_is_none_is_told(authority: Authority, tmp_path: Path) -> None:
    [problem] = client_problems("etcdTls", TlsFiles(ca=_text(tmp_path, "nothing")))
    assert (problem.field, "no certificate in PEM" in problem.message) == ("etcdTls.ca", True)


def test_a_certificate_that_becomes_good_by_itself_is_used_though_no_file_changes(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, late = authority.pair("first"), authority.pair("late", expired=True)
    files = TlsFiles(ca=authority.ca, cert=tmp_path / "c.pem", key=tmp_path / "c.key")
    _put(first, files)
    certificates = Certificates(files)
    assert not certificates.renewed(0.0)
    _put(late, files, time_ns=7)
    assert not certificates.renewed(1.0)
    # As one that is valid from now on, or a key that its user may read from now on: the files' times stay.
    _put(authority.pair("late"), files, time_ns=7)
    assert not certificates.renewed(2.0), "not looked at all the time"
    assert certificates.renewed(20.0)
    assert not certificates.renewed(40.0)
    said = [record.__dict__["action"] for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["etcd.certificates_bad"]


def _put(pair: Pair, files: TlsFiles, *, time_ns: int = 5) -> None:
    assert files.cert is not None
    assert files.key is not None
    for source, target in ((pair.cert, files.cert), (pair.key, files.key)):
        target.write_bytes(source.read_bytes())
        os.utime(target, ns=(time_ns, time_ns))
