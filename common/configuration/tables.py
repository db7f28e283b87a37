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
    ADDRESSES,
    NETWORKS,
    Directory,
    Endpoints,
    Listed,
    Names,
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
class SystemUsers(Listed):
    """Users of this machine, perhaps none; the case counts. As text: separated by commas."""

    def accept(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(
            isinstance(name, str) and re.fullmatch(r"[^\0\s:,/*-][^\0\s:,/*]{0,254}", name) for name in value
        ):
            raise UnfitError('a list of names of users, each in full, e.g. ["backup", "www-data"]')
        return tuple(value)


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
        "etcdEndpoints",
        Endpoints(),
        "where etcd listens: [https://]host:port, all members",
        ("127.0.0.1:2379",),
        legacy=True,
    )
    etcd_dial_timeout_ms: int = setting(
        "etcdDialTimeout", _MILLISECONDS, "ms to wait for an answer of etcd", 5000, legacy=True
    )
    etcd_tls: TlsFiles | None = setting(
        "etcdTls", Tls(), "TLS to etcd; only ca is needed (as a flag: ca=FILE[,cert=FILE,key=FILE][,serverName=NAME])"
    )
    etcd_user: str | None = setting("etcdUser", UserName(), "user of etcd, where it asks for one")
    etcd_password: str | None = setting(
        "etcdPassword", Password(), "its password; better: etcdPasswordFile", secret=True, flagless=True
    )
    etcd_password_file: Path | None = setting(
        "etcdPasswordFile", File(), "file with the password of etcdUser and nothing else"
    )
    key_prefix: str = setting(
        "keyPrefix",
        Text("a path such as /etcron", r"(/[A-Za-z0-9._-]+)+"),
        "where all keys of this etcron lie in etcd",
        "/etcron",
    )
    mongodb_uri: str = setting(
        "mongodbUri",
        Text("a URI that begins with mongodb:// or mongodb+srv://", r"mongodb(\+srv)?://[^\s\0]+"),
        "the log store; TLS as MongoDB has it: ?tls=true&tlsCAFile=/etc/etcron/ca.pem",
        "mongodb://127.0.0.1:27017",
        secret=True,
        legacy=True,
    )
    mongodb_password_file: Path | None = setting(
        "mongodbPasswordFile", File(), "file with the password of the user in mongodbUri"
    )
    mongodb_connect_timeout_ms: int = setting(
        "mongodbConnectTimeout", _MILLISECONDS, "ms to wait for the log store", 5000, legacy=True
    )
    mongodb_database: str = setting(
        "mongodbDatabase",
        Text("1 to 63 letters, digits, - or _", r"[A-Za-z0-9_-]{1,63}"),
        "database of the execution logs",
        "cron",
    )
    lease_ttl_s: int = setting("leaseTtlSeconds", WholeNumber(1, 600), "how long a silent process counts as alive", 10)
    lost_after_s: int = setting(
        "lostAfterSeconds", WholeNumber(1, 604_800), "how long a run may be out of touch before it counts as lost", 300
    )
    claim_lead_ms: int = setting(
        "claimLeadMs", WholeNumber(0, 60_000), "how long before its time a fire is claimed", 200
    )
    hedge_ms: int = setting("hedgeMs", WholeNumber(1, 60_000), "when the second worker in rank tries a fire", 500)
    max_clock_skew_ms: int = setting(
        "maxClockSkewMs",
        WholeNumber(1, 60_000),
        "how far a process's clock may be from the others'; beyond this it decides and saves nothing",
        250,
    )
    cluster_name: str | None = setting(
        "clusterName",
        Text("1 to 100 letters, digits, '.', '_', '/' or '-'", r"[A-Za-z0-9._/-]{1,100}"),
        "name of the cluster that signatures are for; the same everywhere in it (keyPrefix)",
    )
    signing_keys: tuple[Path, ...] = setting(
        "signingKeys", Files(), "public keys whose signatures are believed: files, or directories of *.pub files", ()
    )
    log_level: str = setting("logLevel", OneOf(LOG_LEVELS), "what is logged", "info")
    log_format: str = setting(
        "logFormat",
        OneOf(("text", "json")),
        "text: lines for people; json: an object a line with time, level, logger, message, action",
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

    host: str = setting("host", Text("an address or a host name"), "address to listen on", "127.0.0.1")
    api_port: int = setting("apiPort", WholeNumber(0, 65_535), "port to listen on (0: any free one)", 8070, legacy=True)
    api_read_timeout_ms: int = setting("apiReadTimeout", _MILLISECONDS, "ms for a request to arrive", 5000, legacy=True)
    api_write_timeout_ms: int = setting(
        "apiWriteTimeout", _MILLISECONDS, "ms for an answer to be taken", 5000, legacy=True
    )
    allow_unauthenticated: bool = setting(
        "allowUnauthenticated",
        Truth(),
        "listen beyond this machine without a login; by itself it means auth: off, for two more releases",
        False,
    )
    etcd_quota_bytes: int = setting(
        "etcdQuotaBytes",
        WholeNumber(1024**2, 2**60),
        "what etcd's database may grow to (its --quota-backend-bytes): a manager warns at half",
        2 * 1024**3,
    )
    auth: AuthMode = setting(
        "auth",
        Words(AuthMode),
        "whether callers have to be known: off, warn (logs who would be refused), required",
        AuthMode.REQUIRED,
    )
    audit_dir: Path = setting(
        "auditDir",
        Directory(),
        "the audit of this manager, until the log store has it",
        default_factory=default_audit_dir,
    )
    signing_key_file: Path | None = setting(
        "signingKeyFile",
        File(),
        "private key (Ed25519, PEM, for its owner alone) that jobs, runs and kills are signed with",
    )
    socket: Path | None = setting(
        "socket", SocketPath(), "Unix socket to listen on, too: system users of this machine, by uid and groups"
    )
    trust_owner: bool = setting(
        "trustOwner",
        Truth(),
        "whether a caller over loopback may do everything whose system user is the manager's own",
        False,
    )
    allowed_hosts: tuple[str, ...] = setting(
        "allowedHosts", Names(), "names by which browsers call it, e.g. that of a proxy", ()
    )
    oidc_issuer: str | None = setting(
        "oidcIssuer", Issuer(), "login through this OpenID Connect provider: its issuer, https://..."
    )
    oidc_client_id: str | None = setting(
        "oidcClientId", Text("the id that the provider gave", _PRINTABLE), "what etcron is called there"
    )
    oidc_client_secret_file: Path | None = setting(
        "oidcClientSecretFile", File(), "file with the client's secret there, where it has one"
    )
    oidc_redirect_uri: str | None = setting(
        "oidcRedirectUri",
        Text("https://HOST/api/v1/login/oidc/callback", r"https?://[!-~]{1,300}/api/v1/login/oidc/callback"),
        "where the provider sends browsers back to; needed behind a proxy (else what the browser has called)",
    )
    oidc_scopes: str = setting(
        "oidcScopes",
        Text('words with openid among them, e.g. "openid profile groups"', r"(?=(.* )?openid( |$))[!-~ ]{1,300}"),
        "what the provider is asked for",
        "openid profile email",
    )
    oidc_name_claim: str = setting(
        "oidcNameClaim",
        Text("the name of a claim", _PRINTABLE),
        "the claim that names the user; people must not be able to choose it themselves",
        "preferred_username",
    )
    oidc_groups_claim: str = setting(
        "oidcGroupsClaim", Text("the name of a claim", _PRINTABLE), "the claim that names the groups", "groups"
    )
    oidc_label: str | None = setting(
        "oidcLabel",
        Text("a text of up to 60 characters", r"[^\x00-\x1f\x7f-\x9f]{1,60}"),
        "what the login page calls the provider (the issuer's host)",
    )
    oidc_ca: Path | None = setting("oidcCa", File(), "who signs the provider's certificate (whom this machine trusts)")
    proxy_user_header: str | None = setting(
        "proxyUserHeader",
        Header(),
        "header in which a trusted proxy names the user, e.g. X-Remote-User; a proof is needed",
    )
    proxy_groups_header: str | None = setting(
        "proxyGroupsHeader", Header(), "header in which it names the user's groups, with commas"
    )
    proxy_secret_file: Path | None = setting(
        "proxySecretFile",
        File(),
        "proof: file with the secret (20 characters or more) that it sends as X-Etcron-Proxy-Secret",
    )
    proxy_ca: Path | None = setting(
        "proxyCa", File(), "proof: who signs the proxy's client certificate, and no other; needs tlsCert and proxyName"
    )
    proxy_name: str | None = setting(
        "proxyName", Text("a DNS name"), "the DNS name that the proxy's client certificate has to have"
    )
    proxy_uid: int | None = setting(
        "proxyUid", WholeNumber(0, 2**32 - 2), "proof: the proxy calls through the Unix socket, as this system user"
    )
    max_jobs: int = setting(
        "maxJobs", WholeNumber(1, 10_000_000), "jobs that there may be; a save of one more is refused (409)", 1_000_000
    )
    default_timezone: str = setting(
        "defaultTimezone", TimeZone(), "the zone of a job that is saved without one; the same on all managers", "UTC"
    )
    connections_per_address: int = setting(
        "connectionsPerAddress",
        WholeNumber(1, 100_000),
        "connections that one address may have at a time (429 beyond); behind a proxy, calls",
        128,
    )
    proxies: tuple[str, ...] = setting(
        "proxies",
        ADDRESSES,
        "addresses of proxies: any number of connections, and their X-Forwarded-For names the caller",
        (),
    )
    public_url: str | None = setting(
        "publicUrl",
        Text("https://HOST[/path], as browsers call it", r"https?://[A-Za-z0-9.:\[\]-]{1,255}(/[!-~]{0,200})?"),
        "where people find the console: what links in messages begin with",
    )
    notifier: bool = setting(
        "notifier",
        Truth(),
        "whether this manager makes notices and sends them; one process has to, else they wait",
        True,
    )
    heartbeat_url: str | None = setting(
        "heartbeatUrl",
        SecretUrl(),
        "called each minute by the notifier, so that a service elsewhere notices the end of etcron itself",
        secret=True,
        flagless=True,
    )
    secrets_directory: Path | None = setting(
        "secretsDirectory",
        Directory(),
        "a file (mode 0600 or 0400) for each secret that a channel names, beside those of LoadCredential=",
    )
    notice_networks: tuple[str, ...] = setting(
        "noticeNetworks",
        NETWORKS,
        "networks of inner addresses that webhooks may reach; all others have to be public",
        (),
    )
    tls_cert: Path | None = setting(
        "tlsCert", File(), "certificate with its chain (PEM): the port then speaks HTTPS alone"
    )
    tls_key: Path | None = setting("tlsKey", File(), "its key (PEM)")
    webroot: Path | None = setting("webroot", Directory(), "own templates and static files (built in)", legacy=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig(SharedConfig):
    """The configuration of one worker."""

    metrics_port: int = setting(
        "metricsPort",
        WholeNumber(0, 65_535),
        "port for /metrics, /livez and /readyz of this worker (0: none); further processes, and workers of "
        "`etcron up`, have the next",
        0,
    )
    metrics_host: str = setting("metricsHost", Text("an address or a host name"), "address of that port", "127.0.0.1")
    worker_name: str | None = setting(
        "workerName",
        Text("1 to 64 letters, digits, '.', '_' or '-'", _NAME),
        "unique name (made once and kept in dataDir)",
    )
    data_dir: Path = setting(
        "dataDir", Directory(), "spool, name and lock of this worker", default_factory=default_data_dir
    )
    slots: int = setting("slots", WholeNumber(1, 100_000), "runs at a time (8 x cores)", default_factory=default_slots)
    labels: Mapping[str, str] = setting("labels", Pairs(), "what jobs may select this worker by", default_factory=dict)
    bash_path: str = setting(
        "bashPath", Text("an absolute path", r"/[^\0\n]*"), "shell of the jobs", "/bin/sh", legacy=True
    )
    path: str = setting("path", Text("a PATH"), "PATH of the jobs (cron's)", "/usr/bin:/bin")
    allowed_users: tuple[str, ...] = setting(
        "allowedUsers",
        SystemUsers(),
        "users that jobs may run as (the worker has to be root); root only where it is named",
        (),
    )
    default_user: str | None = setting(
        "defaultUser",
        Text("the name of a user", r"[^\0\s:,/*-][^\0\s:,/*]{0,254}"),
        "whom jobs without a user run as (the worker's own)",
    )
    no_new_privileges: bool = setting(
        "noNewPrivileges", Truth(), "no command gains rights by what it executes (sudo, su)", False
    )
    secrets_file: Path | None = setting(
        "secretsFile", File(), "JSON: where secrets lie, and which jobs may have which (docs/guides/secrets.md)"
    )
    signing: SigningMode = setting(
        "signing",
        Words(SigningMode),
        "what no manager has signed: off (is run), warn (is run and reported), require (is not run)",
        SigningMode.OFF,
    )
    job_log_batch_size: int = setting(
        "jobLogBatchSize", WholeNumber(1, 10_000), "log documents in one insert", 100, legacy=True
    )
    job_log_commit_timeout_ms: int = setting(
        "jobLogCommitTimeout",
        _MILLISECONDS,
        "ms until a batch goes that is not full (3000 for at most 10 s while due fires wait for slots)",
        1000,
        legacy=True,
    )
    spool_limit_bytes: int = setting(
        "spoolLimitBytes",
        WholeNumber(16 * 2**20, 2**50),
        "bytes of disk for waiting records: from half of it on outputs are cut, at the limit dropped",
        2**30,
    )
    shutdown_grace_s: int = setting(
        "shutdownGraceSeconds", WholeNumber(0, 86_400), "time for runs to end at a stop", 30
    )
    compaction_minutes: int = setting(
        "compactionMinutes", WholeNumber(0, 10_080), "history of etcd that the steward keeps (0: never compacts)", 5
    )
    log_retention_days: int = setting(
        "logRetentionDays",
        WholeNumber(0, 36_500),
        "days after its plan time until a record is removed from the log store (0: never)",
        0,
    )
    log_retention_per_job: int = setting(
        "logRetentionPerJob",
        WholeNumber(0, 1_000_000),
        "newest records of a job that stay in the log store, beside those of the last two hours (0: all)",
        0,
    )
    processes: int = setting(
        "processes",
        NumberOrAuto(64, suitable_processes),
        "workers that `etcron start worker` runs, sharing slots and spoolLimitBytes (auto: one for two cores)",
        1,
    )
