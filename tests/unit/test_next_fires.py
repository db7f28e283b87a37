"""The order of the next fires, where calls that ask for it are given up half-way."""

from __future__ import annotations

import asyncio

import pytest

from manager.watch.next_fires import NextFires

MANY = 10_000


class Jobs:
    """When each fires next, as the test sets it, and the order that is kept of them."""

    def __init__(self, count: int) -> None:
        self.at_ms = {f"job-{number:04}": 1_000 + number * 7_919 % count for number in range(count)}
        self.names = sorted(self.at_ms)
        self.fires = NextFires(self._next_after, self.names)

    def _next_after(self, name: str, after_ms: int) -> int | None:
        return self.at_ms.get(name)

    def move(self, name: str, at_ms: int) -> None:
        self.at_ms[name] = at_ms
        self.fires.changed(name)

    def delete(self, name: str) -> None:
        self.names.remove(name)
        del self.at_ms[name]
        self.fires.changed(name)

    async def give_up(self) -> None:
        """A call is cancelled at its first pause."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):  # a time, not a deadline: it is over
                await self.fires.refresh(0)

    async def check(self) -> None:
        """The next call is told what one is that has made the order anew."""
        await self.fires.refresh(0)
        expected = [f"{at_ms:016d}/{name}" for name, at_ms in self.at_ms.items()]
        assert self.fires.in_order(behind="", descending=False, limit=MANY) == sorted(expected)
        assert sorted(self.fires.keys(self.names).values()) == sorted(expected)
        assert len(self.fires.until(MANY)) == len(self.names)


@pytest.mark.parametrize("count", [300, 1_000], ids=["put into their places", "all sorted"])
async def test_call_that_is_given_up_loses_no_job_to_the_next(count: int) -> None:
    jobs = Jobs(count)
    await jobs.give_up()
    jobs.move(jobs.names[0], 5)
    jobs.delete(jobs.names[-1])
    await jobs.check()


@pytest.mark.parametrize("changed", [300, 1_000], ids=["put into their places", "all sorted"])
async def test_changes_of_which_a_call_took_some_before_it_was_given_up_are_all_taken_by_the_next(changed: int) -> None:
    jobs = Jobs(1_000)
    await jobs.check()
    for number, name in enumerate(jobs.names[:changed]):
        jobs.move(name, 2_000 + number)
    await jobs.give_up()
    for name in jobs.names[10:20]:
        jobs.delete(name)
    await jobs.check()
    for number, name in enumerate(jobs.names[::10]):
        jobs.move(name, number)
    await jobs.check()
