"""A mount that never answers: what a dead NFS server, or a hung FUSE program, is to whoever touches it."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

_MNT_FORCE: Final = 1
_MNT_DETACH: Final = 2
_INIT: Final = 26
_READ_SIZE: Final = 1 << 17
_libc = ctypes.CDLL(None, use_errno=True)


class DeadMount:
    """Answers nothing, from its mounting on, until it is told to come back: then whoever waits finds it gone.

    Never touch its ``directory`` from the test's own process.
    """

    def __init__(self, directory: Path, *, is_unkillable: bool = False) -> None:
        """``is_unkillable``: whoever waits cannot even be killed. OSError: nothing can be mounted here."""
        self.directory = directory
        self.taken = 0
        """Of one that is unkillable: how many requests wait so."""
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if _libc.mount(b"etcron-test", os.fsencode(directory), b"fuse", 0, options):
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "mount")
        self._answer_init()
        if is_unkillable:
            # A request that has been taken is waited for in a state that no signal ends.
            Thread(target=self._take_for_ever, args=(os.dup(self._device),), daemon=True).start()

    def come_back(self) -> None:
        """Whoever waits goes on, with an error."""
        if self._device >= 0:
            for how in (_MNT_FORCE, _MNT_DETACH):  # the first ends every request, though not the mount
                _libc.umount2(os.fsencode(self.directory), how)
            os.close(self._device)
            self._device = -1

    def _answer_init(self) -> None:
        request = os.read(self._device, _READ_SIZE)
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        assert opcode == _INIT
        body = struct.pack("<IIIIHHIIHHI", 7, 31, 0, 0, 12, 9, 4096, 1, 1, 0, 0) + bytes(24)
        os.write(self._device, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)

    def _take_for_ever(self, device: int) -> None:
        with suppress(OSError), os.fdopen(device, "rb", buffering=0) as file:
            while file.read(_READ_SIZE):
                self.taken += 1


@contextmanager
def dead_mount(directory: Path, *, is_unkillable: bool = False) -> Iterator[DeadMount]:
    """A dead mount there, which comes back afterwards. OSError: nothing can be mounted here."""
    directory.mkdir()
    mount = DeadMount(directory, is_unkillable=is_unkillable)
    try:
        yield mount
    finally:
        mount.come_back()
