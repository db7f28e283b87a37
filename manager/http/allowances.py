"""How much of etcd one job and one caller may fill: beyond, 429 with the limit, and when it may be tried again.

A job's keys are counted in etcd; what a caller has caused, in this manager's memory, until etcd forgets it too.
"""

from __future__ import annotations

import heapq
import ipaddress
from collections import defaultdict
from typing import Final

from manager.http.errors import RequestError

MOST_REMEMBERED: Final = 10_000
"""Calls of one caller under an Idempotency-Key or a dedupeKey."""
MOST_REMEMBERED_OF_ALL: Final = 100_000
"""Those of a job, and of all calls that are of no job: no caller can take what others need."""
MOST_WAITING: Final = 1_000
"""Runs that were asked for and have not begun: of a job, and those for later of a caller."""
MOST_LATER: Final = 100
"""Runs for later of one job, of a caller."""
_RETRY_S: Final = 60
_NETWORK: Final = 64
"""A caller with one IPv6 address has all with these bits."""
_SITE: Final = 48
"""And may have as many such networks as these leave."""
_LOOPBACK: Final = "loopback"


def refuse_beyond(most: int, there: int, what: str, *, retry_s: int = _RETRY_S) -> None:
    """RequestError where there are so many already."""
    if there >= most:
        raise RequestError(429, f"{what}: at most {most:,} at a time; try again later", retry_s=retry_s)


class Allowance:
    """So much at a time for each caller: what is taken counts until its end. ``job``: of each job by itself."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._ends_ms: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def check(self, address: str, most: int, *, now_ms: int, job: str = "") -> None:
        """RequestError where the caller has taken all of it."""
        ends_ms = self._left((network_of(address), job), now_ms)
        retry_s = 1 + (ends_ms[0] - now_ms) // 1000 if ends_ms else 0
        refuse_beyond(most, len(ends_ms), f"{self._what} of {address}", retry_s=retry_s)

    def take(self, address: str, *, until_ms: int, now_ms: int, job: str = "") -> None:
        """The caller has one more."""
        whose = (network_of(address), job)
        if whose not in self._ends_ms:
            for other in list(self._ends_ms):
                self._left(other, now_ms)
        heapq.heappush(self._ends_ms[whose], until_ms)

    def _left(self, whose: tuple[str, str], now_ms: int) -> list[int]:
        ends_ms = self._ends_ms.get(whose, [])
        while ends_ms and ends_ms[0] <= now_ms:
            heapq.heappop(ends_ms)
        if not ends_ms:
            self._ends_ms.pop(whose, None)
        return ends_ms


def network_of(address: str) -> str:
    """Whose connections, tries and calls are counted together: an address, of IPv6 its /64; this machine's own, of
    which each of its users has 16 million (127.0.0.0/8), are one.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.is_loopback:
        return _LOOPBACK
    return str(ipaddress.ip_network((ip, _NETWORK), strict=False)) if ip.version == 6 else address


def site_of(address: str) -> str | None:
    """The /48 of an address of IPv6: 65,536 networks that one caller may have; None: it is none."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return None if ip.version == 4 or ip.is_loopback else str(ipaddress.ip_network((ip, _SITE), strict=False))
