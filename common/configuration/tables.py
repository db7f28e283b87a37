"""The keys of a manager and of a worker: flags, variables, `etcron config show` are read off these classes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from common.access.callers import AuthMode
from common.configuration.files import File, Files, Password, SecretUrl, Tls, UserName
from common.configuration.keys import (
    Addresses,
    Directory,
    Endpoints,
    Key,
    Names,
    Networks,
    NumberOrAuto,
    OneOf,
    Pairs,
    SocketPath,
    Text,
    TimeZone,
    Truth,
    UnfitError,
    WholeNumber,
    Words,
    setting,
)
from common.configuration.ways import Header, Issuer
from common.protocol.signatures import SigningMode
from common.timings import Timings
from common.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class SystemUsers:
    """Users of this machine, perhaps none; the case counts. As text: separated by commas."""

    def accept(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(
            isinstance(name, str) and re.fullmatch(r"[^\0\s:,/*-][^\0\s:,/*]{0,254}", name) for name in value
        ):
            raise UnfitError('a list of names of users, each in full, e.g. ["backup", "www-data"]')
        return tuple(value)

    def read(self, text: str) -> tuple[str, ...]:
        return self.accept([part.strip() for part in text.split(",") if part.strip()])


LOG_LEVELS = ("debug", "info", "warning", "error")
_MILLISECONDS = WholeNumber(1, 3_600_000)
_PRINTABLE = r"[!-~]{1,200}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def default_slots() -> int:
    """Eight for each core that this process may use."""
    return 8 * len(os.sched_getaffinity(0))


def suitable_processes() -> int:
    """One for each two cores that this process may use, at least 1 and at most 8: commands need cores, too."""
    return min(8, max(1, len(os.sched_getaffinity(0)) // 2))


def default_data_dir() -> Path:
    """``~/.local/share/etcron/worker``."""
    return Path(os.path.expanduser("~/.local/share/etcron/worker"))


def default_audit_dir() -> Path:
    """``~/.local/share/etcron/manager/audit``."""
    return Path(os.path.expanduser("~/.local/share/etcron/manager/audit"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConfig:
    """What managers and workers have in common."""

    etcd_endpoints: tuple[str, ...] = setting(
        Key(
            name="etcdEndpoints",
            kind=Endpoints(),
            help="where etcd listens: [https://]host:port, all members",
            legacy=True,
        ),
        ("127.0.0.1:2379",),
    )
    etcd_dial_timeout_ms: int = setting(
        Key(name="etcdDialTimeout", kind=_MILLISECONDS, help="ms to wait for an answer of etcd", legacy=True), 5000
    )
    etcd_tls: TlsFiles | None = setting(
        Key(
            name="etcdTls",
            kind=Tls(),
            help="TLS to etcd; only ca is needed (as a flag: ca=FILE[,cert=FILE,key=FILE][,serverName=NAME])",
        )
    )
    etcd_user: str | None = setting(Key(name="etcdUser", kind=UserName(), help="user of etcd, where it asks for one"))
    etcd_password: str | None = setting(
        Key(
            name="etcdPassword",
            kind=Password(),
            help="its password; better: etcdPasswordFile",
            secret=True,
            flagless=True,
        )
    )
    etcd_password_file: Path | None = setting(
        Key(name="etcdPasswordFile", kind=File(), help="file with the password of etcdUser and nothing else")
    )
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
            help="the log store; TLS as MongoDB has it: ?tls=true&tlsCAFile=/etc/etcron/ca.pem",
            secret=True,
            legacy=True,
        ),
        "mongodb://127.0.0.1:27017",
    )
    mongodb_password_file: Path | None = setting(
        Key(name="mongodbPasswordFile", kind=File(), help="file with the password of the user in mongodbUri")
    )
    mongodb_connect_timeout_ms: int = setting(
        Key(name="mongodbConnectTimeout", kind=_MILLISECONDS, help="ms to wait for the log store", legacy=True), 5000
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
        Key(
            name="maxClockSkewMs",
            kind=WholeNumber(1, 60_000),
            help="how far a process's clock may be from the others'; beyond this it decides and saves nothing",
        ),
        250,
    )
    cluster_name: str | None = setting(
        Key(
            name="clusterName",
            kind=Text("1 to 100 letters, digits, '.', '_', '/' or '-'", r"[A-Za-z0-9._/-]{1,100}"),
            help="name of the cluster that signatures are for; the same everywhere in it (keyPrefix)",
        )
    )
    signing_keys: tuple[Path, ...] = setting(
        Key(
            name="signingKeys",
            kind=Files(),
            help="public keys whose signatures are believed: files, or directories of *.pub files",
        ),
        (),
    )
    log_level: str = setting(Key(name="logLevel", kind=OneOf(LOG_LEVELS), help="what is logged"), "info")
    log_format: str = setting(
        Key(
            name="logFormat",
            kind=OneOf(("text", "json")),
            help="text: lines for people; json: an object a line with time, level, logger, message, action",
        ),
        "text",
    )
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Key name -> where its value came from; "default" where it is not in here."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What a user should read once at start."""

    @property
    def signed_for(self) -> str:
        """The cluster that signatures name."""
        return self.cluster_name or self.key_prefix

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
        Key(name="apiPort", kind=WholeNumber(0, 65_535), help="port to listen on (0: any free one)", legacy=True), 8070
    )
    api_read_timeout_ms: int = setting(
        Key(name="apiReadTimeout", kind=_MILLISECONDS, help="ms for a request to arrive", legacy=True), 5000
    )
    api_write_timeout_ms: int = setting(
        Key(name="apiWriteTimeout", kind=_MILLISECONDS, help="ms for an answer to be taken", legacy=True), 5000
    )
    allow_unauthenticated: bool = setting(
        Key(
            name="allowUnauthenticated",
            kind=Truth(),
            help="listen beyond this machine without a login; by itself it means auth: off, for two more releases",
        ),
        False,
    )
    etcd_quota_bytes: int = setting(
        Key(
            name="etcdQuotaBytes",
            kind=WholeNumber(1024**2, 2**60),
            help="what etcd's database may grow to (its --quota-backend-bytes): a manager warns at half",
        ),
        2 * 1024**3,
    )
    auth: AuthMode = setting(
        Key(
            name="auth",
            kind=Words(AuthMode),
            help="whether callers have to be known: off, warn (logs who would be refused), required",
        ),
        AuthMode.REQUIRED,
    )
    audit_dir: Path = setting(
        Key(name="auditDir", kind=Directory(), help="the audit of this manager, until the log store has it"),
        default_factory=default_audit_dir,
    )
    signing_key_file: Path | None = setting(
        Key(
            name="signingKeyFile",
            kind=File(),
            help="private key (Ed25519, PEM, for its owner alone) that jobs, runs and kills are signed with",
        )
    )
    socket: Path | None = setting(
        Key(
            name="socket",
            kind=SocketPath(),
            help="Unix socket to listen on, too: system users of this machine, by uid and groups",
        )
    )
    trust_owner: bool = setting(
        Key(
            name="trustOwner",
            kind=Truth(),
            help="whether a caller over loopback may do everything whose system user is the manager's own",
        ),
        False,
    )
    allowed_hosts: tuple[str, ...] = setting(
        Key(name="allowedHosts", kind=Names(), help="names by which browsers call it, e.g. that of a proxy"), ()
    )
    oidc_issuer: str | None = setting(
        Key(
            name="oidcIssuer", kind=Issuer(), help="login through this OpenID Connect provider: its issuer, https://..."
        )
    )
    oidc_client_id: str | None = setting(
        Key(
            name="oidcClientId",
            kind=Text("the id that the provider gave", _PRINTABLE),
            help="what etcron is called there",
        )
    )
    oidc_client_secret_file: Path | None = setting(
        Key(name="oidcClientSecretFile", kind=File(), help="file with the client's secret there, where it has one")
    )
    oidc_redirect_uri: str | None = setting(
        Key(
            name="oidcRedirectUri",
            kind=Text("https://HOST/api/v1/login/oidc/callback", r"https?://[!-~]{1,300}/api/v1/login/oidc/callback"),
            help="where the provider sends browsers back to; needed behind a proxy (else what the browser has called)",
        )
    )
    oidc_scopes: str = setting(
        Key(
            name="oidcScopes",
            kind=Text(
                'words with openid among them, e.g. "openid profile groups"', r"(?=(.* )?openid( |$))[!-~ ]{1,300}"
            ),
            help="what the provider is asked for",
        ),
        "openid profile email",
    )
    oidc_name_claim: str = setting(
        Key(
            name="oidcNameClaim",
            kind=Text("the name of a claim", _PRINTABLE),
            help="the claim that names the user; people must not be able to choose it themselves",
        ),
        "preferred_username",
    )
    oidc_groups_claim: str = setting(
        Key(
            name="oidcGroupsClaim", kind=Text("the name of a claim", _PRINTABLE), help="the claim that names the groups"
        ),
        "groups",
    )
    oidc_label: str | None = setting(
        Key(
            name="oidcLabel",
            kind=Text("a text of up to 60 characters", r"[^\x00-\x1f\x7f-\x9f]{1,60}"),
            help="what the login page calls the provider (the issuer's host)",
        )
    )
    oidc_ca: Path | None = setting(
        Key(name="oidcCa", kind=File(), help="who signs the provider's certificate (whom this machine trusts)")
    )
    proxy_user_header: str | None = setting(
        Key(
            name="proxyUserHeader",
            kind=Header(),
            help="header in which a trusted proxy names the user, e.g. X-Remote-User; a proof is needed",
        )
    )
    proxy_groups_header: str | None = setting(
        Key(name="proxyGroupsHeader", kind=Header(), help="header in which it names the user's groups, with commas")
    )
    proxy_secret_file: Path | None = setting(
        Key(
            name="proxySecretFile",
            kind=File(),
            help="proof: file with the secret (20 characters or more) that it sends as X-Etcron-Proxy-Secret",
        )
    )
    proxy_ca: Path | None = setting(
        Key(
            name="proxyCa",
            kind=File(),
            help="proof: who signs the proxy's client certificate, and no other; needs tlsCert and proxyName",
        )
    )
    proxy_name: str | None = setting(
        Key(
            name="proxyName",
            kind=Text("a DNS name"),
            help="the DNS name that the proxy's client certificate has to have",
        )
    )
    proxy_uid: int | None = setting(
        Key(
            name="proxyUid",
            kind=WholeNumber(0, 2**32 - 2),
            help="proof: the proxy calls through the Unix socket, as this system user",
        )
    )
    max_jobs: int = setting(
        Key(
            name="maxJobs",
            kind=WholeNumber(1, 10_000_000),
            help="jobs that there may be; a save of one more is refused (409)",
        ),
        1_000_000,
    )
    default_timezone: str = setting(
        Key(
            name="defaultTimezone",
            kind=TimeZone(),
            help="the zone of a job that is saved without one; the same on all managers",
        ),
        "UTC",
    )
    connections_per_address: int = setting(
        Key(
            name="connectionsPerAddress",
            kind=WholeNumber(1, 100_000),
            help="connections that one address may have at a time (429 beyond); behind a proxy, calls",
        ),
        128,
    )
    proxies: tuple[str, ...] = setting(
        Key(
            name="proxies",
            kind=Addresses(),
            help="addresses of proxies: any number of connections, and their X-Forwarded-For names the caller",
        ),
        (),
    )
    public_url: str | None = setting(
        Key(
            name="publicUrl",
            kind=Text(
                "https://HOST[/path], as browsers call it", r"https?://[A-Za-z0-9.:\[\]-]{1,255}(/[!-~]{0,200})?"
            ),
            help="where people find the console: what links in messages begin with",
        )
    )
    notifier: bool = setting(
        Key(
            name="notifier",
            kind=Truth(),
            help="whether this manager makes notices and sends them; one process has to, else they wait",
        ),
        True,
    )
    heartbeat_url: str | None = setting(
        Key(
            name="heartbeatUrl",
            kind=SecretUrl(),
            help="called each minute by the notifier, so that a service elsewhere notices the end of etcron itself",
            secret=True,
            flagless=True,
        )
    )
    secrets_directory: Path | None = setting(
        Key(
            name="secretsDirectory",
            kind=Directory(),
            help="a file (mode 0600 or 0400) for each secret that a channel names, beside those of LoadCredential=",
        )
    )
    notice_networks: tuple[str, ...] = setting(
        Key(
            name="noticeNetworks",
            kind=Networks(),
            help="networks of inner addresses that webhooks may reach; all others have to be public",
        ),
        (),
    )
    tls_cert: Path | None = setting(
        Key(name="tlsCert", kind=File(), help="certificate with its chain (PEM): the port then speaks HTTPS alone")
    )
    tls_key: Path | None = setting(Key(name="tlsKey", kind=File(), help="its key (PEM)"))
    webroot: Path | None = setting(
        Key(name="webroot", kind=Directory(), help="own templates and static files (built in)", legacy=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig(SharedConfig):
    """The configuration of one worker."""

    metrics_port: int = setting(
        Key(
            name="metricsPort",
            kind=WholeNumber(0, 65_535),
            help="port for /metrics, /livez and /readyz of this worker (0: none); further processes, and workers of "
            "`etcron up`, have the next",
        ),
        0,
    )
    metrics_host: str = setting(
        Key(name="metricsHost", kind=Text("an address or a host name"), help="address of that port"), "127.0.0.1"
    )
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
        Key(name="bashPath", kind=Text("an absolute path", r"/[^\0\n]*"), help="shell of the jobs", legacy=True),
        "/bin/sh",
    )
    path: str = setting(Key(name="path", kind=Text("a PATH"), help="PATH of the jobs (cron's)"), "/usr/bin:/bin")
    allowed_users: tuple[str, ...] = setting(
        Key(
            name="allowedUsers",
            kind=SystemUsers(),
            help="users that jobs may run as (the worker has to be root); root only where it is named",
        ),
        (),
    )
    default_user: str | None = setting(
        Key(
            name="defaultUser",
            kind=Text("the name of a user", r"[^\0\s:,/*-][^\0\s:,/*]{0,254}"),
            help="whom jobs without a user run as (the worker's own)",
        )
    )
    no_new_privileges: bool = setting(
        Key(name="noNewPrivileges", kind=Truth(), help="no command gains rights by what it executes (sudo, su)"), False
    )
    secrets_file: Path | None = setting(
        Key(
            name="secretsFile",
            kind=File(),
            help="JSON: where secrets lie, and which jobs may have which (docs/guides/secrets.md)",
        )
    )
    signing: SigningMode = setting(
        Key(
            name="signing",
            kind=Words(SigningMode),
            help="what no manager has signed: off (is run), warn (is run and reported), require (is not run)",
        ),
        SigningMode.OFF,
    )
    job_log_batch_size: int = setting(
        Key(name="jobLogBatchSize", kind=WholeNumber(1, 10_000), help="log documents in one insert", legacy=True), 100
    )
    job_log_commit_timeout_ms: int = setting(
        Key(
            name="jobLogCommitTimeout",
            kind=_MILLISECONDS,
            help="ms until a batch goes that is not full (3000 for at most 10 s while due fires wait for slots)",
            legacy=True,
        ),
        1000,
    )
    spool_limit_bytes: int = setting(
        Key(
            name="spoolLimitBytes",
            kind=WholeNumber(16 * 2**20, 2**50),
            help="bytes of disk for waiting records: from half of it on outputs are cut, at the limit dropped",
        ),
        2**30,
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
    log_retention_days: int = setting(
        Key(
            name="logRetentionDays",
            kind=WholeNumber(0, 36_500),
            help="days after its plan time until a record is removed from the log store (0: never)",
        ),
        0,
    )
    log_retention_per_job: int = setting(
        Key(
            name="logRetentionPerJob",
            kind=WholeNumber(0, 1_000_000),
            help="newest records of a job that stay in the log store, beside those of the last two hours (0: all)",
        ),
        0,
    )
    processes: int = setting(
        Key(
            name="processes",
            kind=NumberOrAuto(64, suitable_processes),
            help="workers that `etcron start worker` runs, sharing slots and spoolLimitBytes (auto: one for two cores)",
        ),
        1,
    )
