"""A manager's HTTP API, as the command line asks it: one connection, and errors with the exit status that they are.

Nothing that changes something is ever sent twice: where no answer came, the error says that it is not known. Where
several servers are given, the next one is asked only while no connection has been made.
"""

from __future__ import annotations

import errno
import http.client
import json
import socket
import ssl
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from cli.errors import CommandError, ExitStatus
from cli.printing import complain, tell
from cli.profiles import (
    DEFAULT_SERVER,
    SERVER_VARIABLE,
    TOKEN_VARIABLE,
    Credential,
    Profile,
    local_socket,
    place_of,
    refuse_open_way,
    target,
    token_given,
)
from cli.progress import Progress, megabytes, tracked

UNIX: Final = "unix"
"""``unix:/run/etcron/manager.sock``."""
PAGE: Final = 500
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 60.0
_IDLE_S: Final = 2.0
"""A connection that lay idle for longer may be closed by the other side at any moment: a new one is taken."""
_MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
_PIECE_BYTES: Final = 256 * 1024
_MOST_OF_A_LINE: Final = 8 * 1024 * 1024
_STATUSES: Final = {
    401: ExitStatus.NOT_ALLOWED, 403: ExitStatus.NOT_ALLOWED, 404: ExitStatus.NOT_FOUND, 409: ExitStatus.CONFLICT,
    412: ExitStatus.CONFLICT,
}  # fmt: skip
_NO_SUCH_CALL: Final = ("no-such-path", "method-not-allowed")

Document = dict[str, Any]
Query = Mapping[str, str | int | Sequence[str] | None]


class ProblemError(CommandError):
    """The manager refused. Its problem document says what and how to mend it."""

    def __init__(self, message: str, status: ExitStatus, document: Document) -> None:
        super().__init__(message, status)
        self.document = document

    @property
    def errors(self) -> list[Document]:
        """Of bad input: each with field, message and remedy."""
        return [error for error in self.document.get("errors") or () if isinstance(error, dict)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One of a stream."""

    kind: str
    data: Document
    place: int | None
    """From where a stream that follows goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A success."""

    status: int
    document: Any


class Client:
    """One conversation with a manager. Raises CommandError for whatever is no success."""

    def __init__(self, servers: Sequence[str], *, ca: str | None = None, credential: Credential | None = None) -> None:
        self.servers = tuple(servers)
        self._servers = [_server(text) for text in servers]
        self.ca = ca
        self._credential = credential
        self.cookies: dict[str, str] = {}
        """That answers have set, by name."""
        self.date: str | None = None
        """The manager's time in its newest answer, as it writes it."""
        self.dated_s = 0.0
        """When that came, by this machine's clock."""
        self._connection: http.client.HTTPConnection | None = None
        self._base = self._servers[0]
        self._used_at = 0.0

    @classmethod
    def of(cls, arguments: Namespace) -> Self:
        """The client that `--server`, `--ca` and `--profile`, their variables, or what is kept of a login, name."""
        chosen = target(arguments)
        if (token := token_given()) is not None:
            given = Credential(token=token, origin=f"the token in {TOKEN_VARIABLE}", servers=None)
            return cls(chosen.servers, ca=chosen.ca, credential=given)
        own = local_socket() if chosen.is_default else None
        servers = chosen.servers if own is None else (own, *chosen.servers)
        return cls(servers, ca=chosen.ca, credential=_kept(chosen.profile))

    @classmethod
    def by_profile(cls, profile: Profile) -> Self:
        """As the user who has logged in there, whatever the environment says."""
        return cls(profile.servers, ca=profile.ca, credential=_kept(profile))

    def refuse_open_way(self, what: str) -> None:
        """CommandError where this could be read on its way to any of the servers."""
        for base in self._servers:
            refuse_open_way(base, _shown(base), what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the conversation."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, query: Query | None = None) -> Any:
        """The document that a GET answers with."""
        return self.call("GET", path, query=query).document

    def text(self, path: str) -> str:
        """The text that a GET answers with."""
        status, body = self._exchange("GET", path, None, {})
        if status >= 400:
            raise self._refusal("GET", path, status, body)
        return body.decode(errors="replace")

    def events(self, path: str, query: Query, *, place: int) -> Iterator[Event]:
        """The events of a stream from this place on, until it ends; CommandError (unavailable) where it breaks."""
        response = self._ask("GET", path + _query(query), None, {
            "Accept": "text/event-stream", "Last-Event-ID": str(place), "Cache-Control": "no-store",
        })  # fmt: skip
        if response.status >= 400:
            raise self._refusal("GET", path, response.status, _body(response))
        try:
            yield from _events(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise CommandError(f"the stream of {_shown(self._base)} broke: {error}", ExitStatus.UNAVAILABLE) from error
        finally:
            self.close()

    def find(self, path: str) -> Any:
        """The document that a GET answers with; None where there is nothing."""
        try:
            return self.get(path)
        except ProblemError as error:
            if error.status is ExitStatus.NOT_FOUND:
                return None
            raise

    def post(self, path: str, body: Document | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """The document that a POST answers with."""
        return self.call("POST", path, body or {}, headers=headers).document

    def call(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer, which is a success."""
        target = path + _query(query or {})
        try:
            data = None if body is None else json.dumps(body, allow_nan=False).encode()
        except ValueError as error:
            message = "a number in it is NaN or infinite, which JSON has not; it was not sent"
            raise CommandError(message, ExitStatus.REFUSED) from error
        status, raw = self._exchange(method, target, data, headers or {})
        if status >= 400:
            raise self._refusal(method, path, status, raw)
        try:
            return Answer(status=status, document=json.loads(raw) if raw else None)
        except (ValueError, RecursionError) as error:
            raise self._no_manager(f"its answer to {method} {path} is not JSON") from error

    def items(self, path: str, query: Query, *, limit: int | None = None, warnings: list[str]) -> Iterator[Document]:
        """The items of a list, page by page, at most `limit`; what the pages warn of goes to the warnings."""
        cursor, left = None, limit
        with Progress("reading") as progress:
            while left is None or left > 0:
                page = self.get(path, {**query, "cursor": cursor, "limit": PAGE if left is None else min(PAGE, left)})
                if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                    raise self._no_manager(f"its answer to GET {path} has no items")
                warnings += [text for text in page.get("warnings") or () if text not in warnings]
                progress.advance(len(page["items"]))
                yield from page["items"]
                left = None if left is None else left - len(page["items"])
                cursor = page.get("nextCursor")
                if cursor is None:
                    return

    def _no_manager(self, what: str) -> CommandError:
        message = f"{_shown(self._base)} does not answer as an etcron manager: {what}; check --server"
        return CommandError(message, ExitStatus.UNAVAILABLE)

    # One exchange

    def _exchange(self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body. CommandError (unavailable) says whether the request may have been carried out."""
        response = self._ask(method, target, data, headers)
        try:
            body = _body(response)
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(method, error) from error
        self._used_at = time.monotonic()
        self.date, self.dated_s = response.headers.get("Date"), time.time()
        for text in response.headers.get_all("Set-Cookie", ()):
            name, _, value = text.partition(";")[0].partition("=")
            self.cookies[name.strip()] = value.strip()
        if response.will_close:
            self.close()
        return response.status, body

    def _ask(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """The answer, of which only the head has been read."""
        given = {"Accept": "application/json, text/plain", **headers}
        if data is not None:
            given["Content-Type"] = "application/json"
        if self._connection is not None and time.monotonic() - self._used_at > _IDLE_S:
            self.close()
        connection = self._connection = self._connection or self._connect()
        if self._credential is not None:
            given |= self._credential.headers_for(self._base, _shown(self._base))
        try:
            connection.request(method, _prefix(self._base) + target, body=data, headers=given)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(method, error) from error

    def _unanswered(self, method: str, error: Exception) -> CommandError:
        self.close()
        message = f"no answer from {_shown(self._base)}: {_words(error)}"
        if method != "GET":
            message += "; it may or may not have been carried out: look before you repeat it"
        return CommandError(message, ExitStatus.UNAVAILABLE)

    def _connect(self) -> http.client.HTTPConnection:
        """A connection to the first server that takes one, beginning with the one that did last."""
        failures, untrusted = [], 0
        for base in (self._base, *(server for server in self._servers if server != self._base)):
            connection = self._connection_to(base)
            try:
                connection.connect()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                failures.append(f"cannot reach {_shown(base)}: {_words(error)}")
                untrusted += isinstance(error, ssl.SSLCertVerificationError)
                continue
            if isinstance(connection.sock, socket.socket):
                connection.sock.settimeout(_ANSWER_S)
            self._base = base
            return connection
        if untrusted == len(failures):  # they are there, and the remedy is known
            raise CommandError("; ".join(failures), ExitStatus.UNAVAILABLE)
        remedy = f"start it (`etcron up`, `etcron start manager`), or name another with --server or {SERVER_VARIABLE}"
        raise CommandError(f"{'; '.join(failures)}; {remedy}", ExitStatus.UNAVAILABLE)

    def _connection_to(self, base: SplitResult) -> http.client.HTTPConnection:
        host = base.hostname or ""
        if base.scheme == UNIX:
            return _UnixConnection(base.path)
        if base.scheme == "http":
            return http.client.HTTPConnection(host, base.port or 80, timeout=_CONNECT_S)
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            message = f"--ca: {self.ca} cannot be used ({_words(error)}); name a PEM file with certificates"
            raise CommandError(message, ExitStatus.USAGE) from error
        return http.client.HTTPSConnection(host, base.port or 443, timeout=_CONNECT_S, context=context)

    def _refusal(self, method: str, path: str, status: int, body: bytes) -> ProblemError:
        """The error in this answer; where the server's address has a path, that it is this which is not served."""
        error = _refusal(method, path, status, body)
        if status == 401 and self._credential is not None and self._credential.headers_for(self._base, ""):
            message = f"{self._credential.origin} is not good (any more): `etcron login` gets another one"
            return ProblemError(message, error.status, error.document)
        prefix = _prefix(self._base)
        if error.document.get("code") not in _NO_SUCH_CALL or not prefix:
            return error
        address = _shown(self._base._replace(path=""))
        message = (
            f"--server: {_shown(self._base)} has a path, and the address of a manager has none; write {address} "
            f"(or have the proxy that serves it under {prefix} take that off)"
        )
        return ProblemError(message, ExitStatus.USAGE, error.document)


def _kept(profile: Profile | None) -> Credential | None:
    """The token of a profile, for its servers alone."""
    if profile is None or profile.token is None:
        return None
    places = frozenset(place_of(_server(text)) for text in profile.servers)
    return Credential(token=profile.token, origin=f"the token of profile {profile.name}", servers=places)


def _body(response: http.client.HTTPResponse) -> bytes:
    """All of it. OSError, HTTPException: it ends early, or is greater than what is taken."""
    pieces, left = [], _MAX_ANSWER_BYTES
    with Progress("reading", response.length, shown=megabytes) as progress:
        while piece := response.read(_PIECE_BYTES):
            pieces.append(piece)
            left -= len(piece)
            if left < (response.length or 0):
                raise OSError(errno.EFBIG, f"The answer is greater than {megabytes(_MAX_ANSWER_BYTES)}")
            progress.advance(len(piece))
    if response.length:  # what is still to come
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(pieces)


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    """One after the other. ValueError: it is no stream of ours."""
    fields: dict[str, str] = {}
    while line := response.readline(_MOST_OF_A_LINE):
        if line.strip() == b"":
            if "event" in fields:
                data, place = json.loads(fields.get("data", "{}")), fields.get("id")
                yield Event(kind=fields["event"], data=data, place=int(place) if place else None)
            fields = {}
            continue
        if line.startswith(b":"):
            yield Event(kind="", data={}, place=None)  # it goes on
            continue
        name, _, value = line.decode(errors="replace").rstrip("\n").partition(": ")
        fields[name] = value


def job_path(name: str, *more: str | int) -> str:
    """The path of a job, or of something of it."""
    return _path("jobs", name, *more)


def run_path(run: str, *more: str) -> str:
    """The path of a run, or of something of it."""
    return _path("runs", run, *more)


def worker_path(name: str, *more: str) -> str:
    """The path of something of a worker."""
    return _path("workers", name, *more)


def access_path(kind: str, name: str) -> str:
    """The path of a user, a service account, a binding, a token or a session."""
    return _path(kind, name)


def fits_a_path(name: str) -> bool:
    """Whether a path can name it: no dots alone (a step in the path), and no bytes that are no text."""
    return name.isprintable() and name not in ("", ".", "..")


def if_match(revision: int) -> dict[str, str]:
    """The header that lets a change through only while the job is at this revision; 0: while there is none."""
    return {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}


def error_lines(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each mistake in one line: field, what was wrong, how to mend it."""
    return [f"{one.get('field')}: {one.get('message')}; {one.get('remedy')}" for one in errors]


def _path(*parts: str | int) -> str:
    # A part of dots alone would be taken for a step in the path, even percent-encoded.
    if any(str(part) in ("", ".", "..") for part in parts):
        raise CommandError("a name is empty, or dots alone; nothing is called so", ExitStatus.NOT_FOUND)
    try:
        return "/api/v1/" + "/".join(quote(str(part), safe="") for part in parts)
    except UnicodeEncodeError as error:
        raise _no_text(error, ExitStatus.NOT_FOUND) from error


def _query(query: Query) -> str:
    pairs = {name: value for name, value in query.items() if value is not None}
    try:
        return "?" + urlencode(pairs, doseq=True) if pairs else ""
    except UnicodeEncodeError as error:
        raise _no_text(error, ExitStatus.REFUSED) from error


def _no_text(error: UnicodeEncodeError, status: ExitStatus) -> CommandError:
    """Bytes of an argument that are not UTF-8, which Python keeps as lone surrogates."""
    return CommandError(f"{error.object!r} is not UTF-8; nothing is called so", status)


class _UnixConnection(http.client.HTTPConnection):
    """Through a manager's Unix socket, which knows its caller by their system user."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_CONNECT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _prefix(base: SplitResult) -> str:
    """What stands before each path that is asked for."""
    return "" if base.scheme == UNIX else base.path.rstrip("/")


def _server(text: str) -> SplitResult:
    if text.startswith(f"{UNIX}:/"):
        return SplitResult(UNIX, "", "/" + text.removeprefix(f"{UNIX}:").lstrip("/"), "", "")
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        tells_too_much = parts.query or parts.fragment or parts.username is not None
        is_plain = text.isprintable() and " " not in text and parts.path.isascii()
        if is_web and is_plain and not tells_too_much:
            return parts
    except ValueError:
        pass  # also where its port is none
    message = f"--server: {text!r} is not the URL of a manager; write it as {DEFAULT_SERVER}"
    raise CommandError(message, ExitStatus.USAGE)


def _shown(base: SplitResult) -> str:
    return base._replace(netloc=base.netloc.rpartition("@")[2]).geturl().rstrip("/")


def _words(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message}; name who signed it with --ca)"
        case TimeoutError():
            return "it took too long"
        case http.client.IncompleteRead():
            return "the answer ended early"
        case http.client.HTTPException():
            return f"it does not speak HTTP ({type(error).__name__})"
        case OSError() if error.strerror:
            return error.strerror[:1].lower() + error.strerror[1:]
        case _:
            return str(error) or type(error).__name__


def _refusal(method: str, path: str, status: int, body: bytes) -> ProblemError:
    """The error that a problem document stands for; one that is none (a proxy's page) is reported by its status."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {"detail": f"{method} {path} was answered with status {status}"}
    code = document.get("code")
    # The manager is there: it is this one edit alone that was not carried out.
    usual = _STATUSES.get(status, ExitStatus.UNAVAILABLE if status >= 500 else ExitStatus.REFUSED)
    exit_status = ExitStatus.CONFLICT if code == "overtaken" else usual
    if code in _NO_SUCH_CALL:
        message = f"this manager has no {method} {path}: it is of another version than this command"
        return ProblemError(message, ExitStatus.REFUSED, document)
    errors = [error for error in document.get("errors") or () if isinstance(error, dict)]
    lines = error_lines(errors) or [str(document.get("detail") or document.get("title") or f"status {status}")]
    message = lines[0] if len(lines) == 1 else "\n".join(["refused:", *(f"  {line}" for line in lines)])
    return ProblemError(message, exit_status, document)


PATIENCE_S: Final = 60.0


class Patience:
    """Since when nothing was heard, by the caller's monotonic clock (seconds)."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.heard_at = monotonic()

    def heard(self) -> None:
        """A manager has answered."""
        self.heard_at = self._monotonic()

    def bears(self, error: CommandError) -> bool:
        """Whether to ask again: no answer, and that not for long."""
        return error.status is ExitStatus.UNAVAILABLE and self._monotonic() - self.heard_at <= PATIENCE_S


def delete_each(kind: str, arguments: Namespace, *, named: bool = False) -> int:
    """Removes records of a kind, by their names; prints what the manager says of each, ``named``: behind its name."""
    with Client.of(arguments) as client:

        def delete(name: str) -> str:
            message = str(client.call("DELETE", _path(kind, name)).document["message"])
            return f"{name}: {message}" if named else message

        return go_through(arguments.names, delete)


def go_through(names: Iterable[str], act: Callable[[str], str]) -> int:
    """Do it for each name and print what it says. One that fails stops no other, but for a server that is away.

    The exit status is that of the first failure.
    """
    status: int = ExitStatus.OK
    for name in tracked(list(dict.fromkeys(names)), "working"):
        try:
            for line in act(name).splitlines():
                tell(line)
        except CommandError as error:
            if error.status in (ExitStatus.UNAVAILABLE, ExitStatus.USAGE):
                raise
            complain(f"{name}: {error}" if name else str(error))
            status = status or error.status
    return status
