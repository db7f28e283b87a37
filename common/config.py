"""The configuration of a manager and of a worker: checked as a whole, every mistake at once, each with its origin.

    flag --api-port  >  environment ETCRON_CONFIG_APIPORT  >  manager.json "apiPort"  >  default

The two classes below are the table of keys: everything else (flags, variables, `etcron config show`) is read off them.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from common.config_keys import Directory, Endpoints, Key, Names, NotYet, OneOf, Pairs, Text, Truth, WholeNumber, setting, show
from common.config_sources import Gathered, gather
from common.errors import ConfigError, Problem
from common.timings import Timings

Program = Literal["manager", "worker"]

LOG_LEVELS = ("debug", "info", "warning", "error")
_MILLISECONDS = WholeNumber(1, 3_600_000)
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def default_slots() -> int:
    """Eight for each core that this process may use."""
    return 8 * len(os.sched_getaffinity(0))


def default_data_dir() -> Path:
    """``~/.local/share/etcron/worker``."""
    return Path(os.path.expanduser("~/.local/share/etcron/worker"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConfig:
    """What managers and workers have in common."""

    etcd_endpoints: tuple[str, ...] = setting(
        Key(name="etcdEndpoints", kind=Endpoints(), help="where etcd listens: host:port, all members", parents=True),
        ("127.0.0.1:2379",),
    )
    etcd_dial_timeout_ms: int = setting(
        Key(name="etcdDialTimeout", kind=_MILLISECONDS, help="ms to wait for a connection to etcd", parents=True), 5000
    )
    etcd_tls: None = setting(Key(name="etcdTls", kind=NotYet(), help="not supported yet", secret=True))
    etcd_user: None = setting(Key(name="etcdUser", kind=NotYet(), help="not supported yet", secret=True))
    key_prefix: str = setting(
        Key(
            name="keyPrefix",
            kind=Text("a path such as /etcron", r"(/[A-Za-z0-9._-]+)+"),
            help="where all keys of this etcron lie in etcd",
        ),
        "/etcron",
    )
    mongodb_uri: str = setting(
        Key(
            name="mongodbUri",
            kind=Text("a URI that begins with mongodb:// or mongodb+srv://", r"mongodb(\+srv)?://[^\s\0]+"),
            help="the log store",
            secret=True,
            parents=True,
        ),
        "mongodb://127.0.0.1:27017",
    )
    mongodb_connect_timeout_ms: int = setting(
        Key(name="mongodbConnectTimeout", kind=_MILLISECONDS, help="ms to wait for the log store", parents=True), 5000
    )
    mongodb_database: str = setting(
        Key(
            name="mongodbDatabase",
            kind=Text("1 to 63 letters, digits, - or _", r"[A-Za-z0-9_-]{1,63}"),
            help="database of the execution logs",
        ),
        "cron",
    )
    lease_ttl_s: int = setting(
        Key(name="leaseTtlSeconds", kind=WholeNumber(1, 600), help="how long a silent process counts as alive"), 10
    )
    lost_after_s: int = setting(
        Key(
            name="lostAfterSeconds",
            kind=WholeNumber(1, 604_800),
            help="how long a run may be out of touch before it counts as lost",
        ),
        300,
    )
    claim_lead_ms: int = setting(
        Key(name="claimLeadMs", kind=WholeNumber(0, 60_000), help="how long before its time a fire is claimed"), 200
    )
    hedge_ms: int = setting(
        Key(name="hedgeMs", kind=WholeNumber(1, 60_000), help="when the second worker in rank tries a fire"), 500
    )
    max_clock_skew_ms: int = setting(
        Key(name="maxClockSkewMs", kind=WholeNumber(1, 60_000), help="beyond this a process decides nothing"), 250
    )
    log_level: str = setting(Key(name="logLevel", kind=OneOf(LOG_LEVELS), help="what is logged"), "info")
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Key name -> where its value came from; "default" where it is not in here."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What a user should be told once at start."""

    @property
    def timings(self) -> Timings:
        """Those of the values that have to fit each other."""
        return Timings(
            lease_ttl_s=self.lease_ttl_s,
            lost_after_s=self.lost_after_s,
            claim_lead_ms=self.claim_lead_ms,
            hedge_ms=self.hedge_ms,
            max_clock_skew_ms=self.max_clock_skew_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfig(SharedConfig):
    """The configuration of one manager."""

    host: str = setting(
        Key(name="host", kind=Text("an address or a host name"), help="address to listen on"), "127.0.0.1"
    )
    api_port: int = setting(
        Key(name="apiPort", kind=WholeNumber(0, 65_535), help="port to listen on (0: any free one)", parents=True), 8070
    )
    api_read_timeout_ms: int = setting(
        Key(name="apiReadTimeout", kind=_MILLISECONDS, help="ms for a request to arrive", parents=True), 5000
    )
    api_write_timeout_ms: int = setting(
        Key(name="apiWriteTimeout", kind=_MILLISECONDS, help="ms for an answer to be taken", parents=True), 5000
    )
    allow_unauthenticated: bool = setting(
        Key(name="allowUnauthenticated", kind=Truth(), help="listen beyond this machine although there is no login"),
        False,
    )
    allowed_hosts: tuple[str, ...] = setting(
        Key(name="allowedHosts", kind=Names(), help="names by which browsers call it, e.g. that of a proxy"), ()
    )
    webroot: Path | None = setting(
        Key(name="webroot", kind=Directory(), help="own templates and static files (built in)", parents=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig(SharedConfig):
    """The configuration of one worker."""

    worker_name: str | None = setting(
        Key(
            name="workerName",
            kind=Text("1 to 64 letters, digits, '.', '_' or '-'", _NAME),
            help="unique name (made once and kept in dataDir)",
        )
    )
    data_dir: Path = setting(
        Key(name="dataDir", kind=Directory(), help="spool, name and lock of this worker"),
        default_factory=default_data_dir,
    )
    slots: int = setting(
        Key(name="slots", kind=WholeNumber(1, 100_000), help="runs at a time (8 x cores)"),
        default_factory=default_slots,
    )
    labels: Mapping[str, str] = setting(
        Key(name="labels", kind=Pairs(), help="what jobs may select this worker by"), default_factory=dict
    )
    bash_path: str = setting(
        Key(name="bashPath", kind=Text("an absolute path", r"/[^\0\n]*"), help="shell of the jobs", parents=True),
        "/bin/sh",
    )
    path: str = setting(Key(name="path", kind=Text("a PATH"), help="PATH of the jobs (cron's)"), "/usr/bin:/bin")
    job_log_batch_size: int = setting(
        Key(name="jobLogBatchSize", kind=WholeNumber(1, 10_000), help="log documents in one insert", parents=True), 100
    )
    job_log_commit_timeout_ms: int = setting(
        Key(
            name="jobLogCommitTimeout", kind=_MILLISECONDS, help="ms until a batch goes that is not full", parents=True
        ),
        1000,
    )
    shutdown_grace_s: int = setting(
        Key(name="shutdownGraceSeconds", kind=WholeNumber(0, 86_400), help="time for runs to end at a stop"), 30
    )
    compaction_minutes: int = setting(
        Key(
            name="compactionMinutes",
            kind=WholeNumber(0, 10_080),
            help="history of etcd that the steward keeps (0: never compacts)",
        ),
        5,
    )


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
    beyond = not _is_loopback(config.host)
    if beyond and not config.allow_unauthenticated:
        gathered.problems.append(_unauthenticated(config))
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
        if not isinstance(key.kind, NotYet):
            yield key.name, show(key, getattr(config, attribute)), config.origins.get(key.name, "default")


def file_object(config: SharedConfig) -> dict[str, object]:
    """The configuration as the JSON object of a file that gives it again (secrets included)."""
    values = {key.name: getattr(config, attribute) for attribute, key in _keyed_fields(type(config))}
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None}


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
    problems = gathered.problems + config.timings.problems()
    if problems:
        raise ConfigError(problems)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _unauthenticated(config: ManagerConfig) -> Problem:
    return Problem(
        field="host",
        message=f'{config.origins.get("host", "default")} has "{config.host}", beyond this machine, without a login',
        remedy='give 127.0.0.1, or set "allowUnauthenticated": true if everyone who reaches it may run commands',
    )
