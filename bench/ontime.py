"""50 fires a second for a minute: how late each starts, beside a bare loop; then each kind of job, on each etcd.

On `etcron up` with two workers. Counted from the dispatch time (plan time + jitter) to the moment right before the
command is started, by whole milliseconds, rounded down. The bare loop follows, at the same distances: it sleeps and
starts commands. For the kinds of jobs see :mod:`bench.kinds`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from bench import kinds
from bench.figures import Figure, Goal, WrongError, at_most, quantile, ratio
from bench.on_up import up
from bench.peers import bare_loop
from bench.reading import all_records, once_each
from bench.spread import A_SECOND, Spread, spread
from tests.support.etcd_metrics import etcd_counts

SECONDS: Final = 60
_LEAD_S: Final = 6
_LIMIT_S: Final = 60
_LOOK_S: Final = 0.5


def one_round(share: float) -> list[Figure]:
    """Ours, then the bare loop, then the kinds of jobs."""
    seconds = max(1, round(SECONDS * share))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        late_ms, moments_ms, requests = asyncio.run(_ours(Path(folder), seconds))
    ahead_ms = int(time.time() + 1) * 1000 - moments_ms[0]
    bare_ms = bare_loop.lateness([moment_ms + ahead_ms for moment_ms in moments_ms])
    ours = _figures("etcron", late_ms, at_most(3), at_most(20))
    theirs = _figures("bare loop", bare_ms, None, None)
    return [
        *ours,
        *theirs,
        ratio("etcron to bare loop, 99 %", ours[1].value, theirs[1].value),
        Figure(name="etcd requests", value=requests / len(late_ms), unit="a fire", note="the idle ones among them"),
        *kinds.figures(share),
    ]


def _figures(name: str, late_ms: Sequence[float], median: Goal | None, most: Goal | None) -> list[Figure]:
    return [
        Figure(name=f"{name}: median", value=quantile(late_ms, 0.5), unit="ms", goal=median),
        Figure(name=f"{name}: 99 %", value=quantile(late_ms, 0.99), unit="ms", goal=most),
        Figure(name=f"{name}: the latest", value=max(late_ms), unit="ms", note=f"of {len(late_ms):,}"),
    ]


async def _ours(folder: Path, seconds: int) -> tuple[list[int], list[int], int]:
    """How late each was, the moments, and what etcd was asked meanwhile."""
    async with up(folder) as running:
        load = spread(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=_LEAD_S), seconds)
        await running.save(load.specs)
        await asyncio.sleep(load.ends_ms / 1000 - seconds - 1 - time.time())
        before = await etcd_counts(running.etcd)
        await asyncio.sleep(load.ends_ms / 1000 + 1 - time.time())
        asked = (await etcd_counts(running.etcd) - before).requests
        fires = seconds * A_SECOND
        while len(records := await all_records(running.http, running.url)) < fires:
            if time.time() > load.ends_ms / 1000 + _LIMIT_S:
                raise WrongError(f"only {len(records)} of {fires} records can be read by now")
            await asyncio.sleep(_LOOK_S)
    return _checked(load, records, fires), list(load.moments_ms.values()), asked


def _checked(load: Spread, records: list[dict[str, object]], fires: int) -> list[int]:
    late_ms = list(load.late_ms(once_each(records, fires)).values())
    if min(late_ms) < 0:
        raise WrongError(f"a run started {-min(late_ms)} ms before its dispatch time")
    return late_ms
