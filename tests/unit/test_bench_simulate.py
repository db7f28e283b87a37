"""The simulation of fleets: what it counts is what the protocol says, and every fire is claimed once."""

from __future__ import annotations

import pytest

from bench.filling import saved
from bench.simulate_etcd import CountingEtcd
from bench.simulate_fleet import Outcome, Scenario, simulate
from bench.simulate_standing import standing, stored
from common.jobs.reader import parse_job
from common.protocol.compares import absent, create_revision_is, lease_is, mod_revision_is, value_is
from common.protocol.keys import Keys
from common.protocol.txn import Delete, Get, Put, Txn

FIRES = 40


def outcome(workers: int, *, seconds: int = 4, dead: float = 0.0, full: float = 0.0) -> Outcome:
    """Of a small fleet; whatever happens, each fire is claimed, and once."""
    found = simulate(Scenario(workers=workers, fires=FIRES, seconds=seconds, dead=dead, full=full))
    assert found.tries.claimed + found.tries.requests_claimed == FIRES
    assert found.undecided == 0
    return found


@pytest.mark.parametrize("workers", [1, 3, 30])
@pytest.mark.parametrize("seconds", [1, 4])
def test_a_fire_costs_five_mutations_and_no_worker_is_told_of_it_however_many_there_are(
    workers: int, seconds: int
) -> None:
    found = outcome(workers, seconds=seconds)
    assert found.counts.mutations == 5 * FIRES
    assert found.counts.to_workers == 0
    assert found.counts.to_managers == 2 * 2 * FIRES, "its run key comes and goes, for two managers"
    assert (found.tries.lost, found.tries.hedged, found.tries.offered) == (0, 0, 0)


def test_a_fire_by_itself_costs_four_requests_and_the_look_of_the_steward() -> None:
    found = outcome(100, seconds=20)  # so many workers that no two of its fires share a request
    steward = 21
    assert 3.7 * FIRES < found.counts.requests - steward <= 4 * FIRES


def test_fires_of_a_burst_share_requests() -> None:
    assert outcome(1, seconds=1).counts.requests < 0.6 * FIRES


def test_the_second_in_rank_takes_what_the_dead_leave_and_the_steward_offers_the_rest_to_all() -> None:
    found = outcome(10, dead=0.5)
    assert found.tries.hedged > 0
    assert found.tries.offered == found.tries.requests_claimed > 0
    assert found.tries.lost == found.tries.requests_lost == 0
    assert found.counts.mutations == 5 * FIRES + 4 * found.tries.offered
    assert found.counts.to_workers == 2 * 10 * found.tries.offered, "the request comes and goes, for all workers"


def test_a_worker_without_slots_tries_when_it_has_them_and_finds_its_fires_decided() -> None:
    found = outcome(10, full=0.5)
    assert found.tries.lost > 0
    assert found.tries.lost + found.tries.claimed >= FIRES - found.tries.offered


def test_the_same_seed_has_the_same_outcome() -> None:
    assert outcome(5, dead=0.2) == outcome(5, dead=0.2)


def test_an_etcd_that_counts_decides_like_etcd() -> None:
    etcd = CountingEtcd(workers={"/etcron/jobs/": 7}, managers={"/etcron/": 2})
    made = etcd.txn(Txn([absent("/etcron/jobs/a")], [Put("/etcron/jobs/a", b"1", 5), Put("/etcron/marks/a", b"2")]))
    assert (made.succeeded, made.revision) == (True, 2)
    assert (etcd.counts.mutations, etcd.counts.to_workers, etcd.counts.to_managers) == (2, 7, 4)
    held = [
        value_is("/etcron/marks/a", b"2"), mod_revision_is("/etcron/jobs/a", 2), lease_is("/etcron/jobs/a", 5),
        create_revision_is("/etcron/jobs/a", 2), mod_revision_is("/etcron/jobs/b", 0),
    ]  # fmt: skip
    assert etcd.txn(Txn(held, [Delete("/etcron/jobs/b")])).deleted(0) == 0
    refused = etcd.txn(Txn([value_is("/etcron/jobs/b", b"")], [Put("/etcron/jobs/b", b"3")], [Get("/etcron/marks/a")]))
    assert not refused.succeeded
    assert refused.kvs(0) == (etcd.get("/etcron/marks/a"),)
    assert (etcd.counts.mutations, etcd.counts.requests) == (2, 3)
    assert set(etcd.get_many([f"/etcron/jobs/{n}" for n in range(129)] + ["/etcron/jobs/a"])) == {"/etcron/jobs/a"}
    assert etcd.counts.requests == 5, "a batched read takes 128 keys at a time"


def test_what_stands_grows_with_the_processes_and_its_clocks_with_their_square() -> None:
    one, ten = standing(workers=100, managers=0), standing(workers=1_000, managers=0)
    assert ten.requests == pytest.approx(10 * one.requests)
    assert ten.watches - 3 == 10 * (one.watches - 3), "the steward's are there once"
    assert ten.clocks_read == pytest.approx(100 * one.clocks_read, rel=0.03)


def test_what_is_stored_is_counted_by_keys_and_bytes() -> None:
    job = saved(parse_job({"name": "a", "command": "true", "cronExpr": "* * * * * * *"}), 1_790_000_000_000)
    there = stored([job, job])
    assert there.keys == 4
    assert there.mark_bytes == 2 * (len(Keys().mark("a")) + 16)
    assert there.job_bytes == 2 * (len(Keys().job("a")) + len(job.to_json()))
    assert there.times(0.5) == stored([job])
