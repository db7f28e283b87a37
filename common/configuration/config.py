"""The configuration of a manager and of a worker: checked as a whole, every mistake at once, each with its origin.

    flag --api-port  >  environment ETCRON_CONFIG_APIPORT  >  manager.json "apiPort"  >  default

The two classes of `tables` are the table of keys: everything else is read off them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from common.access.callers import AuthMode
from common.configuration.files import password_in
from common.configuration.keys import Key, show
from common.configuration.signatures import seal_of, trust_of
from common.configuration.sources import Gathered, gather
from common.configuration.tables import (
    LOG_LEVELS,
    ManagerConfig,
    SharedConfig,
    WorkerConfig,
    default_data_dir,
    default_slots,
)
from common.configuration.ways import is_loopback, oidc_problems, proxy_problems
from common.errors import ConfigError, Problem
from common.protocol.signatures import SigningMode
from common.tls import TlsFiles, client_problems, file_fault, pair_problems

_USER_ONLY = re.compile(r"mongodb(?:\+srv)?://[^:/@]+@")
_USER_AND_PASSWORD = re.compile(r"mongodb(?:\+srv)?://[^/:]*:[^/]*@")

_LEAST_PROXY_SECRET = 20


def access_notes(config: SharedConfig) -> Iterator[str]:
    """What works, and should not stay so."""
    addresses = [endpoint.rpartition(":")[0].strip("[]") for endpoint in config.etcd_endpoints]
    if config.etcd_user is not None and config.etcd_tls is None and not all(map(is_loopback, addresses)):
        yield "etcdUser without etcdTls: its password crosses the network for everyone to read"
    if _USER_AND_PASSWORD.match(config.mongodb_uri) and config.origins.get("mongodbUri", "").startswith("flag"):
        yield "the password in --mongodb-uri can be read in the list of processes: use mongodbPasswordFile"
    secret = ("etcd_password_file", "tls_key", "oidc_client_secret_file", "proxy_secret_file")
    for attribute, key in _keyed_fields(type(config)):
        name, path = key.name, getattr(config, attribute) if attribute in secret else None
        if path is not None and path.stat().st_mode & stat.S_IROTH:
            yield f"{name}: {path} can be read by every user of this machine: chmod o-r"


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


def _signing(config: SharedConfig) -> Iterator[Problem]:
    if isinstance(config, WorkerConfig) and config.signing is not SigningMode.OFF and not config.signing_keys:
        message = f"is missing, and signing is {config.signing}: nothing could be believed"
        yield Problem(field="signingKeys", message=message, remedy="name the public keys of the managers")
    try:
        trust_of(config)
        seal_of(config)
    except ConfigError as error:
        yield from error.problems


def _ways(config: SharedConfig) -> Iterator[Problem]:
    if not isinstance(config, ManagerConfig):
        return
    if config.oidc_client_secret_file is not None:
        yield from _password_file("oidcClientSecretFile", config.oidc_client_secret_file)
    if config.proxy_secret_file is not None:
        yield from _password_file("proxySecretFile", config.proxy_secret_file, least=_LEAST_PROXY_SECRET)
    yield from oidc_problems(config)
    yield from proxy_problems(config)


def _password_file(field: str, path: Path, *, least: int = 1) -> Iterator[Problem]:
    fault = file_fault(path)
    if fault is None:
        try:
            password = password_in(path)
            fault = None if re.fullmatch(r"[^\0\n]+", password) else f"{path} does not hold one line of text"
            if fault is None and len(password) < least:
                fault = f"{path} holds fewer than {least} characters, which can be guessed"
        except UnicodeDecodeError:
            fault = f"{path} is not UTF-8 text"
    if fault is not None:
        yield Problem(
            field=field, message=fault, remedy="name a readable file that holds the password and nothing else"
        )


Program = Literal["manager", "worker"]

__all__ = [
    "LOG_LEVELS",
    "ManagerConfig",
    "Program",
    "SharedConfig",
    "WorkerConfig",
    "default_data_dir",
    "default_slots",
    "file_object",
    "keys_of",
    "load_manager_config",
    "load_worker_config",
    "shown",
]


def keys_of(program: Program) -> dict[str, Key]:
    """The keys of a program, by name, in their order."""
    table = ManagerConfig if program == "manager" else WorkerConfig
    return {key.name: key for _, key in _keyed_fields(table)}


def load_manager_config(
    path: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> ManagerConfig:
    """The checked configuration of a manager, or a ConfigError with every mistake.

    `path` None: no file. `environ` None: the process's own. `flags`: key name -> text as given on the command line,
    or a value as in JSON.
    """
    gathered = _gather("manager", path, environ, flags)
    config = ManagerConfig(**_arguments(ManagerConfig, gathered))
    if config.allow_unauthenticated and "auth" not in config.origins:
        config = replace(config, auth=AuthMode.OFF)
        gathered.notes.append(
            "allowUnauthenticated is read as auth: off; two releases from now it will not be read: create a user "
            "(etcron admin create NAME), and take it out"
        )
    open_to_all = config.auth is not AuthMode.REQUIRED
    beyond = open_to_all and not is_loopback(config.host.strip("[]"))
    if beyond and not config.allow_unauthenticated:
        origin = config.origins.get("host", "default")
        message = f'{origin} has "{config.host}", beyond this machine, without a login'
        remedy = (
            'give 127.0.0.1, or set "auth": "required"; "allowUnauthenticated": true is for where everyone who reaches '
            "it may run commands"
        )
        gathered.problems.append(Problem(field="host", message=message, remedy=remedy))
    _refuse(config, gathered)
    if beyond:
        gathered.notes.append(
            f"listening on {config.host} without login: whoever reaches port {config.api_port} can run any command on "
            "every worker"
        )
    return replace(config, notes=tuple(gathered.notes))


def load_worker_config(
    path: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> WorkerConfig:
    """The checked configuration of a worker, or a ConfigError with every mistake; parameters as for a manager."""
    gathered = _gather("worker", path, environ, flags)
    config = WorkerConfig(**_arguments(WorkerConfig, gathered))
    _refuse(config, gathered)
    return replace(config, notes=tuple(gathered.notes))


def shown(config: SharedConfig) -> Iterator[tuple[str, str, str]]:
    """(key, value as JSON without secrets, origin) of every key."""
    for attribute, key in _keyed_fields(type(config)):
        yield key.name, show(key, getattr(config, attribute)), config.origins.get(key.name, "default")


def file_object(config: SharedConfig) -> dict[str, object]:
    """The configuration as the JSON object of a file that gives it again (secrets included)."""
    found: dict[str, object] = {}
    for attribute, key in _keyed_fields(type(config)):
        match getattr(config, attribute):
            case None:
                pass
            case TlsFiles() as files:
                found[key.name] = files.to_json()
            case Path() as path:
                found[key.name] = str(path)
            case [Path(), *_] as paths:
                found[key.name] = [str(path) for path in paths]
            case value:
                found[key.name] = value
    return found


def _keyed_fields(table: type[SharedConfig]) -> list[tuple[str, Key]]:
    return [(spec.name, spec.metadata["key"]) for spec in fields(table) if "key" in spec.metadata]


def _gather(
    program: Program, path: Path | None, environ: Mapping[str, str] | None, flags: Mapping[str, object] | None
) -> Gathered:
    own = keys_of(program)
    other = keys_of("worker" if program == "manager" else "manager")
    return gather(
        own,
        {name: key for name, key in other.items() if name not in own},
        program=program,
        path=path,
        environ=os.environ if environ is None else environ,
        flags=flags or {},
    )


def _arguments(table: type[SharedConfig], gathered: Gathered) -> dict[str, Any]:
    values = {name: gathered.values[key.name] for name, key in _keyed_fields(table) if key.name in gathered.values}
    return {**values, "origins": gathered.origins}


def _refuse(config: SharedConfig, gathered: Gathered) -> None:
    """Raise what was gathered together with what does not fit each other (defaults stand in for bad values)."""
    unfit = {problem.field for problem in gathered.problems}
    misfits = [
        *config.timings.problems(), *_etcd_tls(config), *_etcd_user(config), *_mongodb(config), *_own_tls(config),
        *_ways(config),
        *_signing(config),
    ]  # fmt: skip
    # Of a key whose value is none already, the default is all that could be shown, which no user has written.
    if problems := gathered.problems + [problem for problem in misfits if problem.field not in unfit]:
        raise ConfigError(problems)
    gathered.notes.extend(access_notes(config))
