"""TLS from files: mistakes in them found before anything starts, and named with what mends them.

A certificate is judged by OpenSSL itself: a handshake in memory, in which the other side trusts nothing but this very
certificate, fails where it has expired, does not fit its key, or is not made for its side. Nothing is sent anywhere.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common.errors import Problem

_MISMATCH = "KEY_VALUES_MISMATCH"
_OUT_OF_DATES = (9, 10)
"""As OpenSSL numbers it: not yet valid (the clock may be behind until NTP has set it), expired."""
_ROUNDS = 8
"""More than any handshake takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What a client needs to speak TLS: PEM files, and the name to look for in the server's certificate."""

    ca: Path
    """Who signs the servers' certificates; nobody else is trusted."""
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None
    """Expected in place of the endpoint's own host."""

    def to_json(self) -> dict[str, str]:
        """As in the configuration's file."""
        values = {"ca": self.ca, "cert": self.cert, "key": self.key, "serverName": self.server_name}
        return {name: str(value) for name, value in values.items() if value is not None}


def file_fault(path: Path) -> str | None:
    """Why the file cannot be read, in words; None: it can."""
    try:
        with path.open("rb") as file:
            os.read(file.fileno(), 1)
    except FileNotFoundError:
        return f"{path} does not exist"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return None


def ca_fault(path: Path) -> str | None:
    """Why the file says of nobody that they may sign certificates; None: it does."""
    fault = file_fault(path)
    if fault is None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except ssl.SSLError:
            return f"{path} holds no certificate in PEM"
    return fault


def client_problems(field: str, files: TlsFiles) -> list[Problem]:
    """Every mistake in a client's files."""
    fault = ca_fault(files.ca)
    problems = [_named(f"{field}.ca", fault)] if fault is not None else []
    if (files.cert is None) != (files.key is None):
        there, missing = ("cert", "key") if files.key is None else ("key", "cert")
        message = f"has {there}, but no {missing}"
        return [*problems, Problem(field=field, message=message, remedy="give both of them, or neither")]
    if files.cert is not None and files.key is not None:
        problems += pair_problems(f"{field}.cert", files.cert, f"{field}.key", files.key, server_side=False)
    return problems


def pair_problems(cert_field: str, cert: Path, key_field: str, key: Path, *, server_side: bool) -> list[Problem]:
    """Every mistake in a certificate and its key, for a server or for a client."""
    unreadable = [
        _named(field, fault) for field, path in ((cert_field, cert), (key_field, key)) if (fault := file_fault(path))
    ]
    if unreadable:
        return unreadable
    try:
        _shake_hands(cert, key, server_side=server_side)
    except ssl.SSLCertVerificationError as error:
        message = f"{cert}: {error.verify_message}"
        remedy = f"give a certificate that is valid now, and for {'a server' if server_side else 'a client'}"
        may_pass = error.verify_code in _OUT_OF_DATES
        return [Problem(field=cert_field, message=message, remedy=remedy, may_pass=may_pass)]
    except ssl.SSLError as error:
        return [_pair_problem(cert_field, cert, key_field, key, error)]
    return []


def client_context(files: TlsFiles | None) -> ssl.SSLContext:
    """For a handshake as such a client; None: one that believes whatever it is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if files is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    context.load_verify_locations(files.ca)
    if files.cert is not None:
        context.load_cert_chain(files.cert, files.key, password="")
    return context


def server_context(cert: Path, key: Path, *, client_ca: Path | None = None) -> ssl.SSLContext:
    """For a server of HTTP/1.1 with this certificate: TLS 1.2 and later, OpenSSL's own choice of ciphers.

    ``client_ca``: clients may show a certificate that it has signed; one of anybody else ends the handshake.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(cert, key, password="")
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def pinned_context(cert: Path) -> ssl.SSLContext:
    """For a client that trusts this one certificate, whatever name it is made out for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cert)
    return context


def _shake_hands(cert: Path, key: Path, *, server_side: bool) -> None:
    """A handshake in memory in which the side that owns the certificate is looked at by the other one."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    for context in (server, client):
        context.load_cert_chain(cert, key, password="")
    judge = client if server_side else server
    judge.verify_mode = ssl.CERT_REQUIRED
    judge.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    judge.load_verify_locations(cert)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    for _ in range(_ROUNDS):
        for side in tuple(sides):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                sides.remove(side)


def _pair_problem(cert_field: str, cert: Path, key_field: str, key: Path, error: ssl.SSLError) -> Problem:
    if error.reason == _MISMATCH:
        message = f"{key} is not the key of the certificate {cert}"
        return Problem(field=key_field, message=message, remedy="give the key with which it was made")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        message = f"{cert} holds no certificate in PEM"
        return Problem(field=cert_field, message=message, remedy="give a PEM file, its own certificate first")
    message = f"{key} holds no key in PEM, or one with a password"
    return Problem(field=key_field, message=message, remedy="give a PEM file with a key without a password")


def _named(field: str, fault: str) -> Problem:
    return Problem(field=field, message=fault, remedy="name a PEM file that this user can read")
