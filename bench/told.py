"""What a rule that selects every job costs where nothing fails: burst and cost without and with one, in turn.

With a rule the workers look at each record for what it asks to be told; a success is not among it, so that neither
etcd nor the log store is to get anything more.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from bench import burst, cost
from bench.figures import Figure, at_least, at_most, ratio

_WORKERS: Final = 3
_NOISE: Final = 0.1


def one_round(share: float) -> list[Figure]:
    """Each twice, without and with."""
    starts, costs = [], []
    for are_told in (False, True):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            home = Path(folder)
            home.chmod(0o755)
            figures = asyncio.run(burst.ours(home / "burst", max(1, round(burst.JOBS * share)), are_told=are_told))
            starts.append(figures[0])
    for are_told in (False, True):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            fires = max(1, round(cost.FIRES * share))
            costs.append(asyncio.run(cost.cost_of(Path(folder), _WORKERS, fires, are_told=are_told)))
    figures = [
        Figure(name=f"{which}: burst", value=figure.value, unit=figure.unit, note=figure.note)
        for which, figure in zip(("no rule", "a rule for all"), starts, strict=True)
    ]
    figures.append(ratio("burst, a rule to none", starts[1].value, starts[0].value, at_least(1 - _NOISE)))
    for what in ("mutations", "requests", "worker CPU", "etcd CPU", "log store CPU"):
        figures += [
            Figure(name=f"{which}: {what}", value=spent[what], unit="ms a fire" if "CPU" in what else "a fire")
            for which, spent in zip(("no rule", "a rule for all"), costs, strict=True)
        ]
        figures.append(ratio(f"{what}, a rule to none", costs[1][what], costs[0][what], at_most(1 + _NOISE)))
    return figures
