"""What is particular about a chaos run's processes: ports and disks of its ground; a clock, a user of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.ground import Ground
from tests.chaos.history import HistoryFile, Note
from tests.chaos.member import Member, can_be_user, faketime
from tests.support.dead_mount import DeadMount
from tests.support.etcd_server import EtcdServer
from tests.support.log_store import LogStoreServer

LINGERING = "lingering"
"""Beside the place where a mount may hang for jobs: the one where it may for what their runs leave behind."""
_DISK_MIB = 48
_QUOTA_BYTES = 64 * 1024 * 1024
"""Of etcd: enough for all that a run does between two compactions, and soon filled."""


@dataclass(frozen=True, slots=True)
class Special:
    """By the seed one worker has a clock of its own, another a user, a third a disk that can hang; a clock has the last
    manager, too."""

    ground: Ground
    seed: int

    @property
    def etcd_arguments(self) -> tuple[str, ...]:
        # The fault that fills it mends it by the gateway.
        return ("--quota-backend-bytes", str(_QUOTA_BYTES), "--enable-grpc-gateway=true")

    def settle_servers(self, servers: Sequence[EtcdServer], log_store: LogStoreServer) -> None:
        """Ports that stay theirs while they are away."""
        log_store.port = self.ground.port()
        for server in servers:
            server.port, server.peer_port = self.ground.port(), self.ground.port()
        for server in servers:
            server.members = {other.name: other.peer_port for other in servers}

    def settle_members(self, members: Sequence[Member], evidence: Path, history: HistoryFile) -> None:
        """Before they start. What cannot be had here is noted."""
        evidence.touch()
        evidence.chmod(0o666)  # not all of its writers are of one user
        workers = [member for member in members if member.is_worker]
        can_hang = workers[(2 - self.seed) % len(workers)]
        for member in workers:
            self._with_disk(member, history, can_hang=member is can_hang)
        self._as_another(workers[(1 - self.seed) % len(workers)], history)
        self._with_clock(workers[-self.seed % len(workers)], history)
        self._with_clock(members[-1], history)

    def mount(self, history: HistoryFile) -> Path | None:
        """Where a mount may hang; None, and noted: not on this machine."""
        place = self.ground.directory / "mounted"
        place.mkdir(mode=0o755)
        place.with_name(LINGERING).mkdir(mode=0o755)
        try:
            DeadMount(place).come_back()
        except OSError as error:
            history.add(Note(text=f"no mount hangs: nothing can be mounted by FUSE here ({error})"))
            return None
        return place if self.ground.has_disks else None

    def _with_disk(self, member: Member, history: HistoryFile, *, can_hang: bool) -> None:
        if not self.ground.has_disks:
            history.add(Note(text=f"{member.name}: no disk of its own (mounting is not allowed): it is never full"))
            return
        member.disk = member.process.directory / "data"
        if can_hang:
            member.loop_disk = self.ground.loop_disk(member.disk, _DISK_MIB)
            if member.loop_disk is not None:
                return
            history.add(Note(text=f"{member.name}: no disk on a loop device can be mounted and frozen: it never hangs"))
        self.ground.disk(member.disk, _DISK_MIB)

    def _with_clock(self, member: Member, history: HistoryFile) -> None:
        if faketime() is None:
            history.add(Note(text=f"{member.name}: no libfaketime (make faketime): its clock is never wrong"))
            return
        member.process.clock = self.ground.directory / f"{member.name}.clock"
        member.set_clock("+0s")

    def _as_another(self, member: Member, history: HistoryFile) -> None:
        uid = self.ground.uid
        if os.geteuid() != 0 or not can_be_user(uid):
            history.add(Note(text=f"{member.name}: cannot have a user of its own: it is never out of processes"))
            return
        member.process.uid = uid
        data = member.process.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        for path in (member.process.directory, data):
            os.chown(path, uid, uid)
