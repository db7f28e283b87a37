"""How long the next fire of a schedule takes to find: run as ``python -m bench.cron_next``.

Prints microseconds a call of next_after_ms, for common expressions and for the worst that are accepted, in UTC and in
a zone with daylight saving, and the microseconds of parsing each (without the cache).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from timeit import Timer

from common.instants import to_ms
from common.schedules.cron import parse
from common.schedules.schedule import parse_cron

_COMMON = (
    "*/5 * * * * * *",
    "0 * * * * * *",
    "0 */5 * * * * *",
    "0 0 * * * * *",
    "0 0 0 * * * *",
    "0 30 2 * * 1-5 *",
    "0 0 9-17 * * MON-FRI *",
    "0 0 3 L * * *",
    "0 0 3 * * 5#2 *",
    "0 0 0 1 1 * *",
)
_WORST = ("0 0 0 29 2 * *", "0 0 0 29 2 1 *", "0 0 0 * 2 MON#5 *", "* * * 31 12 * 2199", "0 0 0 1 1 * 1970")
_ZONES = ("UTC", "Europe/Berlin")
_CALLS = 2000
_AT_MS = to_ms(datetime(2026, 3, 28, 12, 0, 0, tzinfo=UTC))


def main() -> None:
    """Prints the table."""
    print(f"{'expression':<26}" + "".join(f"{zone:>16}" for zone in _ZONES) + f"{'parse':>12}   (microseconds)")
    for expr in (*_COMMON, *_WORST):
        nexts = "".join(f"{_microseconds(_next_fire(expr, zone)):>16.2f}" for zone in _ZONES)
        print(f"{expr:<26}{nexts}{_microseconds(partial(parse, expr)):>12.1f}")


def _next_fire(expr: str, zone: str) -> Callable[[], object]:
    return partial(parse_cron(expr, timezone=zone).next_after_ms, _AT_MS)


def _microseconds(call: Callable[[], object]) -> float:
    """Of one call: the best of five rounds."""
    return min(Timer(call).repeat(repeat=5, number=_CALLS)) / _CALLS * 1e6


if __name__ == "__main__":
    main()
