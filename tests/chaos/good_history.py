"""A small history in which every promise is kept: what the checker accepts, and its test corrupts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.chaos.history import Call, Event, Evidence, Fault, Header, Mark, Op, Stage, Stored

T0_MS: Final = 1_800_000_000_000
"""A whole minute."""
_BOOT_NS: Final = 5_000_000_000_000
REVISIONS: Final = {
    "tick": 100,
    "edited": 101,
    "queued": 102,
    "flaky": 103,
    "chain": 104,
    "long": 105,
    "asked": 106,
    "loud": 107,
}
EDIT_MS: Final = 10_500
EDITED: Final = 300
"""The revision of the edit in the middle."""
END_MS: Final = 21_500

_SPECS: Final[dict[str, dict[str, Any]]] = {
    "tick": {"name": "tick", "every": "2s", "misfire": {"policy": "skip", "graceSeconds": 1}},
    "edited": {"name": "edited", "every": "3s"},
    "queued": {"name": "queued", "cronExpr": "*/10 * * * * * *", "overlap": "queue"},
    "flaky": {"name": "flaky", "every": "10s", "retry": {"limit": 2, "delaySeconds": 0.9}},
    "chain": {"name": "chain", "after": "1s"},
    "long": {"name": "long", "every": "20s", "onWorkerLost": "rerun"},
    "loud": {"name": "loud", "every": "20s", "outputLimitBytes": 20_000},
    "asked": {"name": "asked", "every": "600s", "offset": "300s"},
}


def good_history() -> list[Event]:
    """About 21 s of eight jobs; one edit, one kill, one worker lost, one outage."""
    return [
        Header(seed=0, minutes=0.4, commit="none"),
        *(_edit(Op.SAVE, job, -500, spec=spec, revision=REVISIONS[job]) for job, spec in _SPECS.items()),
        *_tick(),
        *_edited(),
        *_queued(),
        *_flaky(),
        *_chain(),
        *_long(),
        *_loud(),
        _call(Op.RUN, "asked", 3000, runs=[f"asked@r-{T0_MS + 3000}-0a#1"]),
        *_run(f"asked@r-{T0_MS + 3000}-0a#1", 3010, 3100),
        Fault(what="SIGKILL", target="w2", from_ms=T0_MS + 20_500, until_ms=T0_MS + 20_700),
        *(_edit(Op.PAUSE, job, END_MS, revision=900 + number) for number, job in enumerate(_SPECS)),
        Stage(name="settled", at_ms=T0_MS + 30_000),
    ]


def _tick() -> Iterator[Event]:
    """A run every 2 s but for an outage from 8 to 14 s; in the end one that was in the way of another.

    One has left a process in its group, which ended with it; and a daemon, which goes on.
    """
    yield _mark(Mark.BACKGROUND, _id("tick", 2), 2390)
    yield _mark(Mark.DEPARTED, _id("tick", 2), 9000)
    for second in (0, 2, 4, 6, 16, 18):
        yield from _run(_id("tick", second), second * 1000 + 5, second * 1000 + 400)
    yield _stored(_id("tick", 8), "missed", end=15_000, rangeEndTime=T0_MS + 14_000, count=4, reason="no worker")
    yield _stored(_id("tick", 20), "skipped", end=20_100, reason="overlap")


def _edited() -> Iterator[Event]:
    """Every 3 s, from the edit on every 5 s; the fire before the edit was left to the edit."""
    for second in (0, 3, 6):
        yield from _run(_id("edited", second), second * 1000 + 5, second * 1000 + 100)
    yield _stored(_id("edited", 9), "skipped", end=EDIT_MS, reason="edited", revision=REVISIONS["edited"])
    yield _edit(Op.SAVE, "edited", EDIT_MS, spec={"name": "edited", "every": "5s"}, revision=EDITED)
    for second in (15, 20):
        yield from _run(_id("edited", second), second * 1000 + 5, second * 1000 + 100, fence=EDITED + second,
                        revision=EDITED)  # fmt: skip


def _queued() -> Iterator[Event]:
    yield from _run(_id("queued", 0), 5, 11_000)
    yield from _run(_id("queued", 10), 11_020, 12_000)
    yield from _run(_id("queued", 20), 20_005, 20_500)


def _flaky() -> Iterator[Event]:
    """The first fire needs two attempts."""
    yield from _run(_id("flaky", 0), 5, 100, code=1)
    yield from _run(_id("flaky", 0, 2), 1005, 1100)
    for second in (10, 20):
        yield from _run(_id("flaky", second), second * 1000 + 5, second * 1000 + 100)


def _chain() -> Iterator[Event]:
    for at_ms in range(0, 20_000, 2500):
        yield from _run(f"chain@{T0_MS + at_ms}#1", at_ms + 5, at_ms + 1400)


def _long() -> Iterator[Event]:
    """Killed by a user; the next one lost with its worker, and run again."""
    run = _id("long", 0)
    yield _mark(Mark.START, run, 5)
    yield _mark(Mark.LAST, run, 4000)
    yield _mark(Mark.DEPARTED, run, 4000)
    yield _call(Op.KILL, "long", 4100, runs=[run], outcome="killed")
    yield _stored(run, "killed", start=3, end=4010, reason="asked")
    yield _mark(Mark.START, _id("long", 20), 20_005)
    yield _mark(Mark.LAST, _id("long", 20), 20_700)
    yield _stored(_id("long", 20), "lost", end=21_000, reason="worker restarted")
    yield from _run(_id("long", 20, 2), 21_010, 21_200)


def _loud() -> Iterator[Event]:
    """More than is kept, and less."""
    for second, printed in ((0, 3_000_000), (20, 1000)):
        run = _id("loud", second)
        yield _mark(Mark.START, run, second * 1000 + 5)
        yield _mark(Mark.END, run, second * 1000 + 200, code=0, printed=printed)
        yield _stored(run, "success", start=second * 1000 + 3, end=second * 1000 + 203, exitCode=0,
                      outputBytes=printed, outputTruncated=printed > 20_000)  # fmt: skip


def _id(job: str, second: int, attempt: int = 1) -> str:
    return f"{job}@{T0_MS + second * 1000}#{attempt}"


def _run(
    run: str, start: int, end: int, *, code: int = 0, fence: int = 200, revision: int | None = None
) -> Iterator[Event]:
    """A whole run, with all that is known of it; times in ms since the beginning."""
    yield _mark(Mark.START, run, start, fence=fence)
    yield _mark(Mark.END, run, end, fence=fence, code=code)
    status = "success" if code == 0 else "failed"
    yield _stored(run, status, start=start - 2, end=end + 3, exitCode=code, fence=fence, revision=revision)


def _mark(
    mark: Mark, run: str, at: int, *, fence: int = 200, code: int | None = None, printed: int | None = None
) -> Evidence:
    return Evidence(
        mark=mark, run=run, fence=fence, worker="w1", pid=4000, boot_ns=_BOOT_NS + at * 1_000_000, wall_ms=T0_MS + at,
        exit_code=code, printed=printed,
    )  # fmt: skip


def _stored(run: str, status: str, *, end: int, start: int | None = None, **more: Any) -> Stored:
    job, _, rest = run.partition("@")
    fire, _, attempt = rest.partition("#")
    document = {
        "_id": run, "jobName": job, "attempt": int(attempt), "status": status, "endTime": T0_MS + end,
        "planTime": int(fire) if fire.isdigit() else T0_MS, "revision": REVISIONS[job],
    }  # fmt: skip
    if status not in ("skipped", "missed"):
        document |= {"fence": 200, "worker": "w1"}
    if start is not None:
        document["startTime"] = T0_MS + start
    return Stored(document=document | {name: value for name, value in more.items() if value is not None})


def _edit(op: Op, job: str, at: int, *, revision: int, spec: dict[str, Any] | None = None) -> Call:
    return Call(
        op=op, job=job, sent_ms=T0_MS + at, ack_ms=T0_MS + at + 20, ack_boot_ns=_BOOT_NS + (at + 20) * 1_000_000,
        spec=spec, job_revision=revision, etcd_revision=revision,
    )  # fmt: skip


def _call(op: Op, job: str, at: int, *, runs: list[str], outcome: str = "") -> Call:
    return Call(
        op=op, job=job, sent_ms=T0_MS + at - 100, ack_ms=T0_MS + at, ack_boot_ns=_BOOT_NS + at * 1_000_000, runs=runs,
        outcome=outcome,
    )  # fmt: skip
