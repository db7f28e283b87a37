"""Keys of a manager that signs, a worker that believes them, and what somebody writes who has etcd, but no key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.clock import SystemClock
from common.protocol.keys import RunId, Watched
from common.protocol.request import Origin, Request
from common.protocol.run import Trigger
from common.protocol.signatures import Seal, SigningMode, Trust
from common.protocol.txn import Put, Txn
from common.signing.keys import PublicKeys, Signer, make_pair, public_path
from tests.support import managing as of_managers
from tests.support.managing import Managed, managing
from tests.support.working import Place, Working, World, working


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """A place whose manager signs."""

    place: Place
    private: Path

    @classmethod
    def at(cls, place: Place, name: str = "manager.key") -> Signing:
        private = place.directory / name
        make_pair(private)
        return cls(place=place, private=private)

    @property
    def public(self) -> Path:
        return public_path(self.private)

    @property
    def seal(self) -> Seal:
        """The manager's own."""
        return self.seal_for(self.place.prefix)

    def seal_for(self, cluster: str) -> Seal:
        signer = Signer.load(self.private)
        return Seal(signer=signer, trust=Trust(cluster=cluster, keys=PublicKeys({}).with_own(signer)))

    @asynccontextmanager
    async def managing(self, **flags: Any) -> AsyncIterator[Managed]:
        """A manager that signs."""
        place = of_managers.Place(
            etcd=self.place.etcd, log_store=self.place.log_store, prefix=self.place.prefix,
            database=self.place.database,
        )  # fmt: skip
        clock = SystemClock()
        async with managing(place, clock=clock, signingKeyFile=str(self.private), **flags) as manager:
            yield manager

    def working(
        self, name: str = "w1", *, mode: SigningMode = SigningMode.REQUIRE, keys: tuple[Path, ...] = (), **changes: Any
    ) -> AbstractAsyncContextManager[Working]:
        """A worker that looks at signatures."""
        return working(self.place, name, signing=mode, signing_keys=keys or (self.public,), **changes)


async def put_job(world: World, name: str, value: bytes) -> None:
    """The job's value, as whoever can write to etcd puts it."""
    puts = [Put(world.keys.job(name), value), Put(world.keys.seen(Watched.JOBS), name.encode())]
    await world.etcd.txn(Txn([], puts))


async def put_request(world: World, request: Request) -> None:
    """The same with a request."""
    puts = [Put(request.key(world.keys), request.to_json()), Put(world.keys.seen(Watched.REQUESTS), b"")]
    await world.etcd.txn(Txn([], puts))


async def asked_for(world: World, name: str, fire: str, **changes: Any) -> Request:
    """A run that was asked for, as a manager writes it that does not sign."""
    kv = await world.etcd.get(world.keys.job(name))
    assert kv is not None
    now_ms = SystemClock().wall_ms()
    request = Request(
        run_id=RunId(name, fire), origin=Origin.RUN_NOW, job_create_revision=kv.create_revision, plan_ms=now_ms,
        dispatch_ms=now_ms, not_before_ms=now_ms, create_ms=now_ms, trigger=Trigger.API, by="somebody",
    )  # fmt: skip
    return replace(request, **changes)
