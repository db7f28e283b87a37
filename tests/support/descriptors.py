"""This process's file descriptors: which there are, and a machine that has none to give."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LOW: Final = 16
"""Those below are open as long as the process lives, but for some that are free."""


def descriptors() -> set[str]:
    """Those that are open."""
    return set(os.listdir("/proc/self/fd"))


@contextmanager
def no_descriptor_left(spare: int = 0) -> Iterator[None]:
    """Every descriptor but ``spare`` is taken meanwhile.

    With none to spare the limit is low: a descriptor of before that is closed meanwhile is above it, and makes no room.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(map(int, descriptors())) + 20 if spare else _LOW
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    taken: list[int] = []
    try:
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            for _ in range(spare):
                os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
