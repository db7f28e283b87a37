"""What a failed call means: refused, not carried out, or in doubt. Only what is certain is called not carried out.

The texts are those of etcd's `rpctypes/error.go`; they are the same in 3.4 to 3.7.

    REFUSED         not carried out: etcd has looked at the request, or will not take it now
    TURNED_AWAY     not carried out: the member did not look at it; another one may
    IN_DOUBT        it may have been carried out: everything else, and above all what is not known here
"""

from __future__ import annotations

from enum import Enum, auto

from common.errors import (
    EtcdAccessError,
    EtcdBusyError,
    EtcdCompactedError,
    EtcdLeaseGoneError,
    EtcdRefusedError,
    Problem,
)
from common.etcd import _rpc


class Meaning(Enum):
    """What a failed call says about the request."""

    REFUSED = auto()
    """Not carried out. Whether the same request is worth sending again, the class of `refusal` says."""
    TURNED_AWAY = auto()
    IN_DOUBT = auto()


_TURNED_AWAY = {
    # All three come from the interceptor, before the request is looked at (v3rpc/interceptor.go).
    "etcdserver: no leader",
    "etcdserver: not capable",
    "etcdserver: rpc not supported for learner",
}
_REFUSED_CODES = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OUT_OF_RANGE",
    "FAILED_PRECONDITION",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "UNIMPLEMENTED",
}
_BUSY = "etcdserver: too many requests"  # the queue before the proposal is full
_REFUSED_TEXTS = (
    _BUSY,
    "grpc: received message larger than max",  # the server's words; this side writes a capital R
)
# Of a token, before the request is carried out; "auth: ..." where 3.4 passes its inner error on.
_TOKEN_REFUSED = (
    "etcdserver: invalid auth token",
    "auth: invalid auth token",
    "etcdserver: revision of auth store is old",
    "auth: revision in header is old",
)
_NO_USER = "etcdserver: user name is empty"
_NO_SPACE = "mvcc: database space exceeded"
_AUTH_IS_OFF = "etcdserver: authentication is not enabled"
_TOO_LARGE = "received message larger than max"
_IN_PLAIN_WORDS = {
    "Connection refused": "connection refused",
    "DEADLINE_EXCEEDED": "no answer in time (DEADLINE_EXCEEDED)",
    "CANCELLED": "no answer in time (CANCELLED)",
    _NO_SPACE: (
        "database space exceeded: etcd takes no writes until it is compacted and defragmented, "
        "and its alarm NOSPACE disarmed"
    ),
}
"""What the usual failures say somewhere in their line, and what that means."""


def meaning_of(error: Exception) -> Meaning:
    """What this grpc error says about the request that it answers."""
    details = _rpc.details_of(error)
    if details in _TURNED_AWAY:
        return Meaning.TURNED_AWAY
    if _rpc.code_of(error) in _REFUSED_CODES or details.startswith((*_REFUSED_TEXTS, *_TOKEN_REFUSED)):
        return Meaning.REFUSED
    return Meaning.IN_DOUBT


def refusal(error: Exception, *, what: str, address: str) -> EtcdRefusedError:
    """The error to raise for a refused request; the most precise class that there is."""
    details = _rpc.details_of(error)
    message = f"etcd at {address} refused {what}: {details}"
    remedy = None
    if _rpc.code_of(error) == "PERMISSION_DENIED":
        remedy = "grant a role of this user's readwrite on the keys (etcdctl role grant-permission, --prefix=true)"
    elif details == _NO_USER:
        remedy = "etcd asks who we are: set etcdUser, and etcdPasswordFile"
    elif token_refused(error):
        remedy = "the token was refused twice; it is tried again"
    if remedy is not None:
        return EtcdAccessError(Problem(field="etcdUser", message=message, remedy=remedy))
    if details.startswith(_BUSY):
        return EtcdBusyError(message)
    if "requested lease not found" in details:
        return EtcdLeaseGoneError(message)
    if "required revision has been compacted" in details:
        return EtcdCompactedError(message)
    return EtcdRefusedError(message)


def token_refused(error: Exception) -> bool:
    """Whether etcd did not take the token of a call (or its absence), and so did not look at the call itself."""
    return _rpc.details_of(error).startswith((*_TOKEN_REFUSED, _NO_USER))


def auth_is_off(error: Exception) -> bool:
    """Whether etcd says that it has no users: authentication is not enabled."""
    return _AUTH_IS_OFF in _rpc.details_of(error)


def database_full(error: Exception) -> bool:
    """Whether etcd says that its database is full: it takes nothing more that needs room."""
    return _NO_SPACE in _rpc.details_of(error)


def answer_too_large(error: Exception) -> bool:
    """Whether the answer was larger than this side takes."""
    details = _rpc.details_of(error).lower()
    return _rpc.code_of(error) == "RESOURCE_EXHAUSTED" and _TOO_LARGE in details


def describe(error: BaseException) -> str:
    """One line for people: the status and its text, without grpc's own ornaments."""
    if isinstance(error, _rpc.RpcError):
        return f"{_rpc.code_of(error)} {_rpc.details_of(error)}".strip()
    return f"{type(error).__name__} {error}".strip()


def in_short(words: str) -> str:
    """The same line for users who only want to know whether etcd is there: common reasons in plain words."""
    before, authenticating, _ = words.rpartition("authentication: ")
    plain = next((words_for for sign, words_for in _IN_PLAIN_WORDS.items() if sign in words), None)
    return words.rstrip(".") if plain is None else before + authenticating + plain
