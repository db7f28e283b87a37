"""What the keys about TLS, users and passwords have to have to do with each other; files are looked at, servers not."""

from __future__ import annotations

import ipaddress
import re
import stat
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from common.configuration.files import password_in
from common.configuration.tables import ManagerConfig, SharedConfig
from common.errors import Problem
from common.tls import client_problems, file_fault, pair_problems

_USER_ONLY = re.compile(r"mongodb(?:\+srv)?://[^:/@]+@")
_USER_AND_PASSWORD = re.compile(r"mongodb(?:\+srv)?://[^/:]*:[^/]*@")


def access_problems(config: SharedConfig) -> list[Problem]:
    """Every mistake that can be found on this machine."""
    return list(chain(_etcd_tls(config), _etcd_user(config), _mongodb(config), _own_tls(config)))


def access_notes(config: SharedConfig) -> Iterator[str]:
    """What works, and should not stay so."""
    addresses = [endpoint.rpartition(":")[0].strip("[]") for endpoint in config.etcd_endpoints]
    if config.etcd_user is not None and config.etcd_tls is None and not all(map(is_loopback, addresses)):
        yield "etcdUser without etcdTls: its password crosses the network for everyone to read"
    if _USER_AND_PASSWORD.match(config.mongodb_uri) and config.origins.get("mongodbUri", "").startswith("flag"):
        yield "the password in --mongodb-uri can be read in the list of processes: use mongodbPasswordFile"
    for name, path in (("etcdPasswordFile", config.etcd_password_file), ("tlsKey", getattr(config, "tls_key", None))):
        if path is not None and path.stat().st_mode & stat.S_IROTH:
            yield f"{name}: {path} can be read by every user of this machine: chmod o-r"


def is_loopback(host: str) -> bool:
    """Whether this names this machine to itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _etcd_tls(config: SharedConfig) -> Iterator[Problem]:
    https = config.etcd_endpoints[0].startswith("https://")
    if https and config.etcd_tls is None:
        remedy = 'give {"ca": "ca.pem"} at least: who signed the certificate of etcd'
        yield Problem(field="etcdTls", message="is needed for endpoints with https://", remedy=remedy)
    if config.etcd_tls is not None:
        if not https:
            message = f"etcdTls is given, and {config.etcd_endpoints[0]} is without TLS"
            yield Problem(field="etcdEndpoints", message=message, remedy="write https:// in front of each of them")
        yield from client_problems("etcdTls", config.etcd_tls)


def _etcd_user(config: SharedConfig) -> Iterator[Problem]:
    given = [
        name
        for name, value in (("etcdPassword", config.etcd_password), ("etcdPasswordFile", config.etcd_password_file))
        if value is not None
    ]
    if len(given) > 1:
        yield Problem(field="etcdPassword", message="is given, and etcdPasswordFile too", remedy="take one of them out")
    if config.etcd_user is None and given:
        yield Problem(
            field="etcdUser", message=f"is missing, and {given[0]} is given", remedy="say whose password it is"
        )
    if config.etcd_user is not None and not given:
        message = f"{config.etcd_user} has no password"
        yield Problem(field="etcdPasswordFile", message=message, remedy="name a file that holds nothing but it")
    if config.etcd_password_file is not None:
        yield from _password_file("etcdPasswordFile", config.etcd_password_file)


def _mongodb(config: SharedConfig) -> Iterator[Problem]:
    if config.mongodb_password_file is None:
        return
    yield from _password_file("mongodbPasswordFile", config.mongodb_password_file)
    if not _USER_ONLY.match(config.mongodb_uri):
        message = "mongodbPasswordFile is given, and the URI has no user, or a password of its own"
        yield Problem(field="mongodbUri", message=message, remedy="write mongodb://user@host, without a password")


def _own_tls(config: SharedConfig) -> Iterator[Problem]:
    if not isinstance(config, ManagerConfig):
        return
    cert, key = config.tls_cert, config.tls_key
    if cert is not None and key is not None:
        yield from pair_problems("tlsCert", cert, "tlsKey", key, server_side=True)
    elif cert is not None or key is not None:
        missing, there = ("tlsKey", "tlsCert") if key is None else ("tlsCert", "tlsKey")
        yield Problem(field=missing, message=f"is missing, and {there} is given", remedy="give both, or neither")


def _password_file(field: str, path: Path) -> Iterator[Problem]:
    fault = file_fault(path)
    if fault is None:
        try:
            fault = None if re.fullmatch(r"[^\0\n]+", password_in(path)) else f"{path} does not hold one line of text"
        except UnicodeDecodeError:
            fault = f"{path} is not UTF-8 text"
    if fault is not None:
        yield Problem(
            field=field, message=fault, remedy="name a readable file that holds the password and nothing else"
        )
