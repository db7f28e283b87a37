"""What is sent to etcd, as text that stays the same from run to run; and where in the code it is sent.

A transaction is told as in docs/internals/protocol.md: its compares, its operations, which branch ran. What no two runs
have in common has a name instead: `<lease 1>`, `<revision 2 of jobs/job>` (the second write to that key), `<random>`.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import secrets
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from common.errors import EtcdInDoubtError
from common.etcd import EtcdClient
from common.etcd.txn_messages import only_read
from common.protocol.compares import Compare, Relation, Target
from common.protocol.txn import Delete, Get, GetKey, GetPrefix, Operation, Put, Txn, TxnResult
from tests.support.sources import ROOT, TREES

PRODUCT: Final = ("common", "worker", "manager", "cli")
WRITE: Final = "ETCRON_GOLDEN"
_NO_ANSWER: Final = "none"
_SENDING: Final = {"txn"}
_WRITING: Final = {"put", "delete"}
_CLIENTS: Final = {"client", "_client", "etcd", "_etcd"}
_BUILDING: Final = {"Put", "Delete", "RunRecord"}
_RELATIONS: Final = {Relation.EQUAL: "==", Relation.GREATER: ">", Relation.LESS: "<"}
_WIDTH: Final = 118
_OF_THIS_MACHINE: Final = {"host", "address", "pid", "uid", "version", "tzdata", "load", "memoryPercent", "roundTripMs"}
_REVISIONS: Final = {"revision", "fence", "jobCreateRevision"}
"""Fields of stored values that hold one of etcd's revisions."""


def check(file: Path, told: object) -> None:
    """The golden file says exactly this; with ETCRON_GOLDEN=write it does from now on."""
    text = _written(told) + "\n"
    if os.environ.get(WRITE) == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    before = file.read_text() if file.exists() else ""
    if before == text:
        return
    diff = "\n".join(difflib.unified_diff(before.splitlines(), text.splitlines(), "golden", "now", lineterm=""))
    raise AssertionError(
        f"{file.relative_to(ROOT)} is not what is sent now:\n{diff}\n\n"
        f"A golden file that changes names the sentence that asks for it, in the message of its commit. "
        f"Write it anew with {WRITE}=write."
    )


def _written(value: object, indent: str = "") -> str:
    """JSON in which everything that fits stands on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, list | dict):
        return line
    deeper = indent + "  "
    parts = [
        f"{json.dumps(name, ensure_ascii=False)}: {_written(part, deeper)}" for name, part in value.items()
    ] if isinstance(value, dict) else [_written(part, deeper) for part in value]  # fmt: skip
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}{closing}"


@dataclass(slots=True, eq=False)
class _Sent:
    txn: Txn
    answer: str = _NO_ANSWER


@dataclass(slots=True, eq=False)
class Recorder:
    """Everything that goes to etcd in a test; what product code sends while it is `on` is kept."""

    sent: list[_Sent] = field(default_factory=list)
    reached: set[Site] = field(default_factory=set)
    prefix: str = ""
    wanted: Callable[[dict[str, Any]], bool] = lambda _: True
    """Which transactions belong to the situation."""
    losing: int = 0
    """Of the next writes so many are carried out, and answered by nobody."""
    _is_on: bool = False
    _written: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _leases: list[int] = field(default_factory=list)
    _tokens: list[str] = field(default_factory=list)

    def attach(self, replace: Callable[[object, str, object], None]) -> None:
        """Stand between all clients and etcd."""
        recorder, token_hex = self, secrets.token_hex
        txn, put, grant = EtcdClient.txn, EtcdClient.put, EtcdClient.lease_grant

        def recorded_txn(client: EtcdClient, transaction: Txn) -> Awaitable[TxnResult]:
            sent = _Sent(Txn(transaction.compares, tuple(transaction.then), tuple(transaction.otherwise)))
            return recorder._carry_out(partial(txn, client), sent, by_product=_is_called_by_product())

        async def recorded_put(client: EtcdClient, key: str, value: bytes, lease: int = 0) -> int:
            revision = await put(client, key, value, lease)
            recorder._written[key].append(revision)
            return revision

        async def recorded_grant(client: EtcdClient, ttl_s: int, *, lease_id: int = 0) -> Any:
            lease = await grant(client, ttl_s, lease_id=lease_id)
            recorder._leases.append(lease.id)
            return lease

        def recorded_token(size: int) -> str:
            recorder._tokens.append(token := token_hex(size))
            return token

        replace(secrets, "token_hex", recorded_token)
        replace(EtcdClient, "txn", recorded_txn)
        replace(EtcdClient, "put", recorded_put)
        replace(EtcdClient, "lease_grant", recorded_grant)

    @contextmanager
    def on(self, prefix: str) -> Iterator[None]:
        """What happens inside is the situation."""
        self.prefix = prefix.rstrip("/") + "/"
        trace, self._is_on = sys.gettrace(), True
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(trace)
            self._is_on = False

    @property
    def is_answered(self) -> bool:
        """Nothing of it is still on its way."""
        return all(sent.answer != _NO_ANSWER for sent in self.sent)

    def told(self) -> list[dict[str, Any]]:
        """The transactions of the situation, in the order in which they were sent."""
        return [told for sent in self.sent if self.wanted(told := self._told(sent))]

    # Recording

    async def _carry_out(self, txn: Callable[..., Awaitable[TxnResult]], sent: _Sent, *, by_product: bool) -> TxnResult:
        is_one = by_product and self._is_on and only_read(sent.txn) is None
        if is_one:
            self.sent.append(sent)
        try:
            result = await txn(sent.txn)
        except BaseException as error:
            sent.answer = type(error).__name__
            raise
        sent.answer = "then" if result.succeeded else "else"
        for operation in sent.txn.then if result.succeeded else sent.txn.otherwise:
            if isinstance(operation, Put):
                self._written[operation.key].append(result.revision)
        if is_one and self.losing and sent.txn.writes and self.wanted(self._told(sent)):
            self.losing -= 1
            sent.answer += ", lost"
            raise EtcdInDoubtError("a lost answer")
        return result

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Notes each place of the product's code that builds a write or a record, or sends a transaction."""
        # Asked for each call of whatever: most files have none, and to hash code for the cache takes long.
        if frame.f_code.co_filename not in _by_file() or not (sites := _sites_in(frame.f_code)):
            return None
        if frame.f_lineno in sites:
            self.reached |= sites[frame.f_lineno]

        def line(frame: FrameType, event: str, argument: object) -> Any:
            self.reached |= sites.get(frame.f_lineno, set())
            return line

        return line

    # Telling

    def _told(self, sent: _Sent) -> dict[str, Any]:
        told = {
            "if": [self._compare(compare) for compare in sent.txn.compares],
            "then": [self._operation(operation) for operation in sent.txn.then],
            "else": [self._operation(operation) for operation in sent.txn.otherwise],
            "answer": sent.answer,
        }
        return {name: part for name, part in told.items() if part}

    def _compare(self, compare: Compare) -> str:
        what = f"{compare.target.name.lower()}({self._key(compare.key)}{'*' if compare.prefix else ''})"
        operand: object = compare.operand
        if compare.target is Target.LEASE:
            operand = self._lease(int(compare.operand))
        elif compare.target is Target.VALUE:
            assert isinstance(compare.operand, bytes)
            operand = json.dumps(self._value(compare.operand), ensure_ascii=False)
        elif compare.prefix and compare.relation is Relation.LESS:
            operand = "<revision of a read>"  # whatever others have written meanwhile
        elif compare.target in (Target.MOD_REVISION, Target.CREATE_REVISION):
            operand = self._revision(int(compare.operand), compare.key)
        return f"{what} {_RELATIONS[compare.relation]} {operand}"

    def _operation(self, operation: Operation) -> dict[str, Any]:
        match operation:
            case Put():
                told = {"put": self._key(operation.key), "value": self._value(operation.value)}
                return told | ({"lease": self._lease(operation.lease)} if operation.lease else {})
            case Delete():
                return {"delete": self._key(operation.key)}
            case Get():
                return {"get": self._key(operation.key)}
            case GetKey():
                return {"getKeyOnly": self._key(operation.key)}
            case GetPrefix():
                return {"getPrefix": self._key(operation.prefix), "limit": operation.limit}

    def _key(self, key: str) -> str:
        beside = self.prefix.rstrip("/") + "-auth/"  # what managers alone may read
        named = f"(auth)/{key.removeprefix(beside)}" if key.startswith(beside) else key.removeprefix(self.prefix)
        text = self._text(named)
        folder, _, revision = text.rpartition("/")
        return f"{folder}/{self._revision(int(revision))}" if text.startswith("versions/") and revision else text

    def _value(self, value: bytes) -> object:
        text = value.decode()
        return self._named(json.loads(text)) if text[:1] in ("{", "[") else self._text(text)

    def _named(self, value: object, called: str = "") -> object:
        if called in _OF_THIS_MACHINE and value is not None:
            return f"<{called}>"
        if isinstance(value, dict):
            return {self._text(name): self._named(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self._named(part, called) for part in value]
        if isinstance(value, str):
            return f'"{self._revision(int(value[1:-1]))}"' if called == "etag" else self._text(value)
        if isinstance(value, int) and called in _REVISIONS and value:
            return self._revision(value)
        return value

    def _text(self, text: str) -> str:
        for lease in self._leases:
            text = text.replace(f"{lease:x}", self._lease(lease))
        for token in self._tokens:
            text = text.replace(token, "<random>")
        return text

    def _lease(self, lease: int) -> str:
        return f"<lease {self._leases.index(lease) + 1}>" if lease in self._leases else "<another lease>"

    def _revision(self, revision: int, key: str = "") -> str | int:
        if revision == 0:
            return 0
        keys = [key] if revision in self._written.get(key, ()) else self._keys_at(revision)
        if not keys:
            return "<revision of a read>"
        count = self._written[keys[0]].index(revision) + 1
        return f"<revision {count} of {self._key(keys[0])}>"

    def _keys_at(self, revision: int) -> list[str]:
        """Those written at it, the telling ones first."""
        keys = [key for key, revisions in self._written.items() if revision in revisions]
        return sorted(keys, key=lambda key: [f"/{part}/" not in key for part in ("jobs", "runs", "requests", "marks")])


def _is_called_by_product() -> bool:
    """Also through a client of a test's, which passes it on."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "txn":
        frame = frame.f_back
    if frame is None:
        return False
    file = Path(frame.f_code.co_filename)
    return file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in PRODUCT


# Where in the code


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A place that builds a write or a record, or sends a transaction."""

    module: str
    function: str
    call: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}: {self.call}"


def all_sites() -> set[Site]:
    """Every one of the product."""
    return {site for sites in _by_file().values() for at in sites.values() for site in at}


@cache
def _by_file() -> dict[str, dict[int, set[Site]]]:
    """For each file, by line."""
    found = {}
    for path, tree in TREES.items():
        sites: dict[int, set[Site]] = defaultdict(set)
        _collect(tree, ".".join(path.with_suffix("").parts), (), sites)
        if sites:
            found[str(ROOT / path)] = dict(sites)
    return found


def _collect(node: ast.AST, module: str, within: tuple[str, ...], sites: dict[int, set[Site]]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _is_site(child.func) and not _is_lone_read(child):
            call = re.sub(r"\s+", " ", ast.unparse(child))[:70]
            sites[child.func.end_lineno or child.lineno].add(Site(module, ".".join(within), call))
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        _collect(child, module, (*within, child.name) if named else within, sites)  # type: ignore[attr-defined]


def _is_site(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in _BUILDING
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value
    owner_name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return called.attr in _SENDING or (called.attr in _WRITING and owner_name in _CLIENTS)


def _is_lone_read(call: ast.Call) -> bool:
    """`txn(Txn((), [GetKey(key)]))`: the client asks for it as a range."""
    match call.args:
        case [ast.Call(func=ast.Name(id="Txn"), args=arguments)]:
            pass
        case arguments:
            pass
    match arguments:
        case [ast.Tuple(elts=[]) | ast.List(elts=[]), ast.List(elts=[ast.Call(func=ast.Name(id="Get" | "GetKey"))])]:
            return True
        case _:
            return False


@cache
def _sites_in(code: CodeType) -> dict[int, set[Site]]:
    sites = _by_file().get(code.co_filename, {})
    lines = {line for _, _, line in code.co_lines()} if sites else set()
    return {line: at for line, at in sites.items() if line in lines}
