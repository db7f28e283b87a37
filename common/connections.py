"""The clients of etcd and of the log store, as the configuration wants them: with TLS, user and password."""

from __future__ import annotations

from common.clock import Clock
from common.configuration.files import password_in
from common.configuration.tables import SharedConfig
from common.etcd import EtcdClient, EtcdUser
from common.runlog import RunLog


def open_etcd(config: SharedConfig, *, timeout_s: float, clock: Clock | None = None) -> EtcdClient:
    """A client of the configured etcd; nothing is sent yet. ConfigError: it can never work."""
    return EtcdClient(
        config.etcd_endpoints, timeout=timeout_s, tls=config.etcd_tls, user=_etcd_user(config), clock=clock
    )


def open_runlog(config: SharedConfig) -> RunLog:
    """The configured log store; nothing is sent yet. ConfigError: it can never work."""
    file = config.mongodb_password_file
    return RunLog(
        config.mongodb_uri,
        database=config.mongodb_database,
        connect_timeout_ms=config.mongodb_connect_timeout_ms,
        password=password_in(file) if file is not None else None,
    )


def _etcd_user(config: SharedConfig) -> EtcdUser | None:
    if config.etcd_user is None:
        return None
    if config.etcd_password_file is not None:
        return EtcdUser.with_password_file(config.etcd_user, config.etcd_password_file)
    return EtcdUser.with_password(config.etcd_user, config.etcd_password or "")
