"""How often a caller may try to log in: the first few at once, then one in a while.

Counted by account, by address (of IPv6 also by its /48, which one who asks gets whole), by both together, and by
device. An account's tries come back faster than one address
uses them up, so others who fail at an account from one place lock its user out there alone. A browser that has logged
in as this user before has tries of its own, which others never use up. A try counts when it begins, so that many at
once are no way around it; one that succeeds is given back. In memory, of this manager, and bounded.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from common.clock import Clock
from manager.http.allowances import network_of, site_of
from manager.http.errors import RequestError

MOST_KNOWN: Final = 20_000
"""Of accounts, of addresses and of devices each: beyond, the one that tried longest ago is forgotten."""


class Tries:
    """``at_once`` tries for each name, and one more every ``each_s`` seconds."""

    def __init__(self, *, at_once: int, each_s: float, clock: Clock, room: int = MOST_KNOWN) -> None:
        self._at_once = at_once
        self._each_s = each_s
        self._clock = clock
        self._room = room
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """When all tries of a name are there again."""

    def __len__(self) -> int:
        return len(self._free_at)

    def wait_s(self, name: str) -> float:
        """How long until there is a try; 0: there is one."""
        left_s = self._free_at.get(name, 0.0) - self._clock.monotonic()
        return max(0.0, left_s - (self._at_once - 1) * self._each_s)

    def take(self, name: str) -> None:
        """One try less."""
        now = self._clock.monotonic()
        self._free_at[name] = max(now, self._free_at.get(name, now)) + self._each_s
        self._free_at.move_to_end(name)
        while len(self._free_at) > self._room:
            self._free_at.popitem(last=False)

    def give_back(self, name: str) -> None:
        """It was none."""
        if name in self._free_at:
            self._free_at[name] -= self._each_s


class Backoff:
    """Of logins."""

    def __init__(self, *, clock: Clock) -> None:
        self._accounts = Tries(at_once=10, each_s=30, clock=clock)
        self._addresses = Tries(at_once=30, each_s=2, clock=clock)
        self._sites = Tries(at_once=300, each_s=0.5, clock=clock)
        self._account_at_address = Tries(at_once=8, each_s=40, clock=clock)
        self._devices = Tries(at_once=10, each_s=30, clock=clock)

    def begin(self, *, account: str | None, address: str, device: str | None = None) -> Try:
        """One more try. RequestError (429): not now.

        ``device``: the id of one that was seen to be known; once its own tries are used up, it counts as any other.
        """
        if device is not None and self._devices.wait_s(device) > 0:
            device = None
        network = network_of(address)
        counted = [(self._devices, device)] if device is not None else [(self._addresses, network)]
        if device is None and (site := site_of(address)) is not None:
            counted.append((self._sites, site))
        if device is None and account is not None:
            counted += [(self._account_at_address, f"{network} {account}"), (self._accounts, account)]
        wait_s = max(tries.wait_s(name) for tries, name in counted)
        if wait_s > 0:
            raise RequestError(
                429, "there were too many failed logins for this account or from this address; try again later, or in "
                "a browser that has logged in before", code="too-many-logins", retry_s=math.ceil(wait_s),
            )  # fmt: skip
        for tries, name in counted:
            tries.take(name)
        return Try(counted)


class Try:
    """One that has begun."""

    def __init__(self, counted: list[tuple[Tries, str]]) -> None:
        self._counted = counted

    def give_back(self) -> None:
        """It is not counted: it succeeded."""
        for tries, name in self._counted:
            tries.give_back(name)
