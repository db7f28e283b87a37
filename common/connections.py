"""The clients of etcd and of the log store, as the configuration wants them: with TLS, user and password."""

from __future__ import annotations

from common.clock import Clock
from common.configuration.files import password_in
from common.configuration.tables import SharedConfig
from common.etcd import EtcdClient, EtcdUser
from common.runlog import RunLog


def open_etcd(config: SharedConfig, *, timeout_s: float, clock: Clock | None = None) -> EtcdClient:
    """A client of the configured etcd; nothing is sent yet. ConfigError: it can never work."""
    user = None
    if config.etcd_user is not None and config.etcd_password_file is not None:
        user = EtcdUser.with_password_file(config.etcd_user, config.etcd_password_file)
    elif config.etcd_user is not None:
        user = EtcdUser.with_password(config.etcd_user, config.etcd_password or "")
    return EtcdClient(config.etcd_endpoints, timeout=timeout_s, tls=config.etcd_tls, user=user, clock=clock)


def open_runlog(config: SharedConfig) -> RunLog:
    """The configured log store; nothing is sent yet. ConfigError: it can never work."""
    file = config.mongodb_password_file
    return RunLog(
        config.mongodb_uri,
        database=config.mongodb_database,
        connect_timeout_ms=config.mongodb_connect_timeout_ms,
        password=password_in(file) if file is not None else None,
    )
