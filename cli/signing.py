"""`etcron signing`: keys for managers and workers, and signatures for jobs that have none. On a manager's host.

`sign-all` reads the manager's configuration and asks etcd itself: it shows what it would sign, and signs exactly that.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli.arguments import EXIT_STATUSES, Parser
from cli.errors import CommandError, ExitStatus
from cli.printing import one_line, print_table, say, tell
from common.clock import SystemClock
from common.configuration.flags import add_config_arguments, explain, manager_config_from
from common.configuration.signatures import seal_of
from common.configuration.tables import ManagerConfig
from common.connections import open_etcd
from common.errors import ConfigError, EtcdError, EtcronError, InvalidInputError, UnavailableError
from common.etcd import EtcdClient
from common.protocol.access_keys import AccessKeys
from common.protocol.edits import Stored, plan_sealing
from common.protocol.keys import Keys
from common.protocol.saved_job import SavedJob, Signed
from common.protocol.signatures import Seal, digest
from common.protocol.txn import KeyValue, Txn
from common.signing.keys import make_pair, public_path
from manager.access.recovery import leave_note

_EXAMPLES: Final = """\
examples:
  etcron signing keygen /etc/etcron/signing.key                 a key, and signing.key.pub for the workers
  etcron signing sign-all --config /etc/etcron/manager.json     what is not signed, and a fingerprint of it
  etcron signing sign-all --config ... --yes 3f2a9c01be44       signs exactly that
  etcron signing sign-all --config ... --again                  all jobs anew: after a backup was restored

"""
_TIMEOUT_S: Final = 5.0
_LONGEST: Final = 100
_NOTED: Final = 20
"""Names in the audit: what is noted has a bound."""


def parser() -> Parser:
    """The command line."""
    top = Parser(
        prog="etcron signing", description="Keys, and signatures for jobs that have none.",
        epilog=_EXAMPLES + EXIT_STATUSES,
    )  # fmt: skip
    verbs = top.add_subparsers(required=True, metavar="VERB")
    keygen = verbs.add_parser("keygen", help="make a key for a manager, and the public one of it for the workers")
    keygen.add_argument("file", type=Path, metavar="FILE", help="of the private key; the public one is FILE.pub")
    keygen.set_defaults(run=_keygen)
    sign = verbs.add_parser("sign-all", help="sign the jobs that no manager has signed; shows them first")
    sign.add_argument(
        "--yes", metavar="FINGERPRINT", help="sign what was shown with this fingerprint, and nothing else"
    )
    sign.add_argument("--again", action="store_true", help="sign all jobs anew: after a restore, or for a new key")
    add_config_arguments(sign, "manager")
    sign.set_defaults(run=_sign_all)
    return top


def _keygen(arguments: argparse.Namespace) -> int:
    try:
        signer = make_pair(arguments.file)
    except FileExistsError as error:
        raise CommandError(f"{error}: nothing was written over", ExitStatus.CONFLICT) from error
    except OSError as error:
        raise CommandError(f"no key was made: {error}", ExitStatus.NO) from error
    tell(f"key {signer.key}")
    say(f"{arguments.file}: for the manager, as signingKeyFile. Keep it from everybody else.")
    say(
        f"{public_path(arguments.file)}: for each worker, into signingKeys. It is no secret, but must be the right one."
    )
    return ExitStatus.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unsigned:
    """A job that would be signed."""

    name: str
    kv: KeyValue
    command: str
    user: str
    why: str


def _sign_all(arguments: argparse.Namespace) -> int:
    try:
        config = manager_config_from(arguments)
        seal = seal_of(config)
    except ConfigError as error:
        raise CommandError(explain(error), ExitStatus.USAGE) from error
    if seal is None:
        message = "this manager signs nothing: make a key (etcron signing keygen), and set signingKeyFile"
        raise CommandError(message, ExitStatus.USAGE)
    try:
        return asyncio.run(_shown_or_signed(config, seal, again=arguments.again, yes=arguments.yes))
    except UnavailableError as error:
        raise CommandError(str(error), ExitStatus.UNAVAILABLE) from error
    except (EtcdError, ConfigError) as error:
        raise CommandError(str(error), ExitStatus.NO) from error


async def _shown_or_signed(config: ManagerConfig, seal: Seal, *, again: bool, yes: str | None) -> int:
    keys = Keys(config.key_prefix)
    async with open_etcd(config, timeout_s=_TIMEOUT_S, clock=SystemClock()) as etcd:
        unsigned = await _look(etcd, keys, seal, again=again)
        if not unsigned:
            tell("every job is signed")
            return ExitStatus.OK
        fingerprint = _fingerprint(unsigned)
        if yes is None:
            rows = [(one.name, one.user, one.command[:_LONGEST], f"it {one.why}") for one in unsigned]
            print_table(("JOB", "USER", "COMMAND", "WHY"), rows, none="every job is signed")
            say(f"{len(unsigned)} jobs. Look at them; then: --yes {fingerprint}")
            return ExitStatus.OK
        if yes != fingerprint:
            message = f"nothing was signed: what would be signed has the fingerprint {fingerprint}; look at it first"
            raise CommandError(message, ExitStatus.CONFLICT)
        names = [one.name for one in unsigned[:_NOTED]]
        await leave_note(
            etcd, AccessKeys(config.key_prefix), "signing.sign-all", "", command="etcron signing",
            fingerprint=fingerprint, jobs=len(unsigned), names=names, again=again,
        )  # fmt: skip
        changed = [one.name for one in unsigned if not await sign(etcd, keys, seal, one.name, one.kv)]
    tell(f"{len(unsigned) - len(changed)} jobs signed")
    if changed:
        message = f"not signed, for they have changed or have no mark: {', '.join(map(one_line, changed))}; look again"
        raise CommandError(message, ExitStatus.CONFLICT)
    return ExitStatus.OK


async def _look(etcd: EtcdClient, keys: Keys, seal: Seal, *, again: bool) -> Sequence[_Unsigned]:
    found = []
    async for page in etcd.read_prefix(keys.jobs):
        for kv in page.kvs:
            name = keys.job_of(kv.key)
            try:
                saved = SavedJob.from_json(kv.value, name=name)
                fault = Signed.of(kv.value).fault(seal.trust, name)
            except InvalidInputError:
                say(f"{one_line(name)} cannot be read, and is left out")
                continue
            if fault is not None or again:
                command, user = saved.spec.command_line, saved.spec.user or ""
                found.append(_Unsigned(name=name, kv=kv, command=command, user=user, why=fault or "is signed"))
    return found


def _fingerprint(unsigned: Iterable[_Unsigned]) -> str:
    """Of everything in them, also what is not shown."""
    return digest([[one.name, one.kv.value.decode(errors="surrogateescape")] for one in unsigned])[:12]


async def sign(etcd: EtcdClient, keys: Keys, seal: Seal, name: str, looked_at: KeyValue) -> bool:
    """Whether the job was as it was looked at, and is signed now."""
    stored = Stored.found(name, await etcd.txn(Txn((), Stored.look(keys, name))))
    if stored.job is None or stored.job.mod_revision != looked_at.mod_revision:
        return False
    try:
        edit = plan_sealing(keys, stored, now_ms=SystemClock().wall_ms(), seal=seal)
    except EtcronError as error:
        say(str(error))
        return False
    return edit is not None and (await etcd.txn(edit.txn)).succeeded
