"""What `etcron up` will run: which servers, on which ports, with which configuration, and why; decided beforehand."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cli.errors import CommandError, ExitStatus
from cli.processes.data_dir import DataDir
from cli.processes.embedded import Found, fetched_etcd, find_etcd, find_log_store, place_of
from cli.processes.ports import PortClaims, holder_of, is_free
from cli.times import machine_timezone
from common.access.callers import AuthMode
from common.configuration.config import ManagerConfig, WorkerConfig, load_manager_config, load_worker_config
from common.configuration.keys import MAX_SOCKET_PATH, redact_uri
from common.configuration.ways import is_loopback
from common.errors import ConfigError, Problem
from common.process import failpoints
from common.protocol.member import is_worker_name
from common.schedules.zones import zone_names

_ETCD_PORTS = (23790, 23791, 23792)
_PEER_PORTS = (23800, 23801, 23802)
_LOG_STORE_PORTS = (27170, 27171, 27172)
_SEVERAL = "docs/operate/five-machines.md"
_HOST_LENGTH = 48
"""Of a worker's name at most, which has 64 characters."""
_STORE_KEYS = {
    "etcdEndpoints": "etcd_endpoints",
    "etcdTls": "etcd_tls",
    "etcdUser": "etcd_user",
    "etcdPassword": "etcd_password",
    "etcdPasswordFile": "etcd_password_file",
    "mongodbUri": "mongodb_uri",
    "mongodbPasswordFile": "mongodb_password_file",
    "mongodbDatabase": "mongodb_database",
    "keyPrefix": "key_prefix",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line of `etcron up`."""

    data_dir: Path
    port: int | None = None
    workers: int = 1
    example: bool = False
    production: bool = False
    manager_config: Path | None = None
    worker_config: Path | None = None
    etcd_endpoints: str | None = None
    mongodb_uri: str | None = None
    fetch_etcd: bool = True

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Options:
        """From the parsed command line."""
        return cls(**{name: getattr(arguments, name) for name in cls.__slots__})

    def fetched_etcd(self, environ: Mapping[str, str]) -> str | None:
        """The etcd that was fetched, if it is there and wanted."""
        return fetched_etcd(place_of(environ)) if self.fetch_etcd else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run. A store that is None runs elsewhere already."""

    manager: ManagerConfig
    workers: tuple[WorkerConfig, ...]
    etcd: Found | None
    etcd_ports: tuple[int, int]
    """For clients and for peers; only where `etcd` is given."""
    log_store: Found | None
    log_store_socket: Path | None
    """Where it listens, in a directory of this user alone; None: on its port."""
    log_store_port: int
    lines: tuple[str, ...]
    """What was chosen, and why, for the terminal."""

    @property
    def url(self) -> str:
        """Where this machine reaches the manager."""
        host = self.manager.host.strip("[]")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.manager.tls_cert else 'http'}://{shown}:{self.manager.api_port}"


def lacks_etcd(options: Options, environ: Mapping[str, str]) -> bool:
    """Whether one is to be started here, may be fetched, and there is none but that of the wheel."""
    if not options.fetch_etcd or shutil.which("etcd") or options.fetched_etcd(environ):
        return False
    return "etcdEndpoints" not in _configured(options, environ)[0].origins


def make_plan(options: Options, data: DataDir, ports: PortClaims, environ: Mapping[str, str] | None = None) -> Plan:
    """Decide everything, or raise CommandError or ConfigError with the reason.

    Remembers ports and kinds in `data`; `ports` has the ports, and is to be kept while the plan is carried out.
    """
    environ = os.environ if environ is None else environ
    if options.production and environ.get(failpoints.VARIABLE):
        raise CommandError(
            f"refused with --production: {failpoints.VARIABLE} is set, which has processes end themselves; unset it",
            ExitStatus.REFUSED,
        )
    lines: list[str] = []
    manager, worker = _configured(options, environ)
    manager = replace(manager, default_timezone=_timezone(manager, data, lines))
    _take_api_port(manager, ports)
    if "auditDir" not in manager.origins:
        manager = replace(manager, audit_dir=data.audit)

    etcd, etcd_ports = _plan_etcd(manager, data, ports, lines, options.fetched_etcd(environ))
    log_store, log_store_socket, log_store_port = _plan_log_store(manager, data, ports, lines)
    manager = _with_access(manager, data)
    if options.production and (faults := list(_unfit(manager, etcd, log_store, log_store_socket))):
        raise CommandError(f"refused with --production: {'; '.join(faults)}", ExitStatus.REFUSED)
    data.remember(etcdElsewhere=etcd is None, logStoreElsewhere=log_store is None)
    if options.production and (etcd or log_store):
        lines.append(
            "production: everything is on this machine, and synced to its disk: losing the disk loses it, so have "
            "`etcron backup` run each night, and keep the file elsewhere"
        )
    if etcd:
        endpoints = (f"127.0.0.1:{etcd_ports[0]}",)
        data.own_password()
        etcds: dict[str, Any] = {
            "etcd_endpoints": endpoints, "etcd_user": "root", "etcd_password_file": data.etcd_password,
        }  # fmt: skip
        manager, worker = replace(manager, **etcds), replace(worker, **etcds)
    if log_store:
        where = quote(str(log_store_socket), safe="") if log_store_socket else f"127.0.0.1:{log_store_port}"
        uri = f"mongodb://{where}"
        manager, worker = replace(manager, mongodb_uri=uri), replace(worker, mongodb_uri=uri)
    return Plan(
        manager=manager,
        workers=tuple(
            _worker(worker, data, number, options, alone=etcd is not None) for number in range(1, options.workers + 1)
        ),
        etcd=etcd,
        etcd_ports=etcd_ports,
        log_store=log_store,
        log_store_socket=log_store_socket,
        log_store_port=log_store_port,
        lines=(*lines, *(f"note:      {note}" for note in (*manager.notes, *worker.notes))),
    )


def _configured(options: Options, environ: Mapping[str, str]) -> tuple[ManagerConfig, WorkerConfig]:
    stores = {"etcdEndpoints": options.etcd_endpoints, "mongodbUri": options.mongodb_uri}
    flags = {name: text for name, text in stores.items() if text is not None}
    port = {} if options.port is None else {"apiPort": options.port}
    manager = load_manager_config(options.manager_config, environ, {**flags, **port})
    worker = load_worker_config(options.worker_config, environ, flags)
    if worker.processes > 1:
        remedy = "take it out, and give etcron up --workers N"
        raise ConfigError([Problem(field="processes", message="is for etcron start worker alone", remedy=remedy)])
    return _agreed(manager, worker)


def _agreed(manager: ManagerConfig, worker: WorkerConfig) -> tuple[ManagerConfig, WorkerConfig]:
    """Both with the same stores: what one file says counts for both, and where they differ, that is a mistake."""
    problems = []
    for name, attribute in _STORE_KEYS.items():
        ours, theirs = getattr(manager, attribute), getattr(worker, attribute)
        if name in manager.origins and name in worker.origins and ours != theirs:
            message = f"{manager.origins[name]} and {worker.origins[name]} differ"
            problems.append(Problem(field=name, message=message, remedy="write the same into both"))
        elif name in manager.origins:
            worker = replace(worker, **{attribute: ours})
        elif name in worker.origins:
            manager = replace(manager, origins={**manager.origins, name: worker.origins[name]}, **{attribute: theirs})
    if problems:
        raise ConfigError(problems)
    return manager, worker


def _timezone(manager: ManagerConfig, data: DataDir, lines: list[str]) -> str:
    """That of jobs that are saved without one: this machine's, as cron's, when the data directory was made."""
    if origin := manager.origins.get("defaultTimezone"):
        zone, origin = manager.default_timezone, origin
    elif remembered := data.remembered():  # those of earlier versions have none: their jobs had UTC
        zone, origin = str(remembered.get("timezone", "UTC")), "as since this data directory was made"
    else:
        try:
            zone, origin = machine_timezone()[0], "this machine's"
            zone = "UTC" if zone == "Etc/UTC" else zone
        except CommandError:
            zone = ""
        if zone not in zone_names():
            zone, origin = "UTC", "as this machine's cannot be told; defaultTimezone names another"
        data.remember(timezone=zone)
    lines.append(f"time zone: {zone} ({origin}), of jobs that name none")
    return zone


def _take_api_port(manager: ManagerConfig, ports: PortClaims) -> None:
    if manager.api_port == 0:
        raise CommandError("etcron up needs a port of its own; give --port a number above 0", ExitStatus.USAGE)
    try:
        free = is_free(manager.host, manager.api_port)
    except PermissionError:
        raise CommandError(
            f"this user may not listen on port {manager.api_port}; choose one from 1024 on with --port",
            ExitStatus.REFUSED,
        ) from None
    except OSError as error:
        raise CommandError(
            f"cannot listen on {manager.host}: {error.strerror}; mend host", ExitStatus.UNAVAILABLE
        ) from None
    if not (free and ports.take(manager.api_port, host=manager.host)):
        by = holder_of(manager.api_port) or (" by another etcron up that has not come so far yet" if free else "")
        raise CommandError(
            f"port {manager.api_port} of {manager.host} is taken{by}; stop that, or choose another with --port",
            ExitStatus.CONFLICT,
        )


def _plan_etcd(
    manager: ManagerConfig, data: DataDir, ports: PortClaims, lines: list[str], fetched: str | None
) -> tuple[Found | None, tuple[int, int]]:
    origin = manager.origins.get("etcdEndpoints")
    if origin:
        lines.append(f"etcd:      {', '.join(manager.etcd_endpoints)} ({origin})")
        return None, (0, 0)
    if manager.etcd_user is not None:
        message = "is set, and no endpoint: the etcd that etcron up would start has a user of its own"
        raise ConfigError([Problem(field="etcdUser", message=message, remedy="give etcdEndpoints, or take it out")])
    earlier, written_by = data.remembered().get("etcd"), data.etcd_written_by()
    found = find_etcd(earlier, written_by, fetched=fetched)
    client = _port(data, ports, "etcdPort", _ETCD_PORTS, lines)
    peer = _port(data, ports, "etcdPeerPort", _PEER_PORTS, lines)
    lines.append(f"etcd:      starting {found.version} ({found.kind}; no endpoint is configured) on 127.0.0.1:{client}")
    if written_by not in ("", found.version):
        lines.append(
            f"           it takes over from {written_by}; a copy of the data is {data.keep_copy_of_etcd(written_by)}"
        )
    data.remember(etcd=found.kind, etcdVersion=found.version, etcdPort=client, etcdPeerPort=peer)
    if found.warning:
        lines.append(f"           WARNING: {found.warning}")
    return found, (client, peer)


def _plan_log_store(
    manager: ManagerConfig, data: DataDir, ports: PortClaims, lines: list[str]
) -> tuple[Found | None, Path | None, int]:
    origin = manager.origins.get("mongodbUri")
    if origin:
        lines.append(f"log store: {redact_uri(manager.mongodb_uri)} ({origin})")
        return None, None, 0
    earlier = data.remembered().get("logStore")
    found = find_log_store(earlier)
    data.remember(logStore=found.kind)
    socket_path = data.log_store_socket if _fits(data.log_store_socket) else None
    port = 0 if socket_path else _port(data, ports, "logStorePort", _LOG_STORE_PORTS, lines)
    if not socket_path:
        data.remember(logStorePort=port)
    lines.append(f"log store: starting {found.kind} (no URI is configured) on {socket_path or f'127.0.0.1:{port}'}")
    if not socket_path:
        lines.append(
            "           WARNING: every user of this machine can read it there: a shorter --data-dir "
            "has room for a socket"
        )
    if isinstance(earlier, str) and earlier != found.kind:
        lines.append(
            f"           WARNING: the logs so far are in the files of {earlier}, which is gone: they are not shown"
        )
    if found.warning:
        lines.append(f"           WARNING: {found.warning}")
    return found, socket_path, port


def _with_access(manager: ManagerConfig, data: DataDir) -> ManagerConfig:
    """The user who started it is in, all others have to log in; unless the configuration says otherwise."""
    given: dict[str, Any] = {}
    if "auth" not in manager.origins and not manager.allow_unauthenticated:
        given["auth"] = AuthMode.REQUIRED
    if "socket" not in manager.origins and _fits(data.manager_socket):
        given["socket"] = data.manager_socket
    if "trustOwner" not in manager.origins and is_loopback(manager.host.strip("[]")):
        given["trust_owner"] = True
    return replace(manager, **given)


def _unfit(manager: ManagerConfig, etcd: Found | None, log_store: Found | None, socket: Path | None) -> Iterator[str]:
    """Why this may not stay for good, each with its remedy. A log store that is started here is for one machine."""
    if etcd is not None and etcd.warning:
        yield f"{etcd.warning}: put a newer etcd on the PATH, or give --etcd-endpoints"
    if manager.auth is not AuthMode.REQUIRED:
        yield f"auth is {manager.auth}, so whoever reaches the port may do everything: take auth out"
    if log_store is None:
        return
    if etcd is None:
        yield (
            "etcd runs elsewhere, and the log store would be started here, where other machines do not reach it: for "
            f"one machine leave out --etcd-endpoints, for several give --mongodb-uri, too ({_SEVERAL})"
        )
    if not is_loopback(manager.host.strip("[]")):
        yield (
            f"host {manager.host} lets other machines in, and the stores are for this one: take host out, with a proxy "
            f"with TLS before it, or give --etcd-endpoints and --mongodb-uri ({_SEVERAL})"
        )
    if socket is None:
        yield "every user of this machine could read the log store's port: give a shorter --data-dir"


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_SOCKET_PATH


def _port(data: DataDir, ports: PortClaims, name: str, preferred: tuple[int, ...], lines: list[str]) -> int:
    """The port that this data directory had last time; another one where another process has taken it."""
    earlier = data.remembered().get(name)
    known = (earlier,) if isinstance(earlier, int) and 0 < earlier < 65536 else ()
    port = ports.take_free((*known, *preferred))
    if known and port != earlier:
        lines.append(f"           port {earlier} of last time is taken{holder_of(known[0])}; using {port}")
    return port


def _worker(worker: WorkerConfig, data: DataDir, number: int, options: Options, *, alone: bool) -> WorkerConfig:
    """One of the workers. On an etcd that others may use, its name carries this machine's and this directory's."""
    shared = _shared_name(data)
    base = worker.worker_name or ("worker" if alone else shared)
    name = base if worker.worker_name and options.workers == 1 else f"{base}-{number}"
    port = worker.metrics_port and worker.metrics_port + number - 1
    return replace(worker, worker_name=name, data_dir=data.worker(number), metrics_port=port)


def _shared_name(data: DataDir) -> str:
    """What the workers of this directory are called on an etcd that others may use: the same at every start.

    A directory in which a worker has been before it had a name of its own keeps the one that its worker had.
    """
    known = data.remembered().get("workers")
    if isinstance(known, str) and is_worker_name(known):
        return known
    host = socket.gethostname()
    if not (data.worker(1) / "instance").exists():
        host = f"{re.sub(r'[^A-Za-z0-9._-]', '-', host)[:_HOST_LENGTH].strip('-._') or 'worker'}-{secrets.token_hex(3)}"
    data.remember(workers=host)
    return host
