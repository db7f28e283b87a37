"""``python -m tests.chaos.model --seeds 1000 [--first 0]``: counts, and the first violation's trace."""

from __future__ import annotations

import argparse
import sys
import time

from tests.chaos.model.checker import Violation, check
from tests.chaos.model.simulation import simulate
from tests.chaos.model.trace import trace


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.model", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="go on after the first violation")
    parser.add_argument("--busy", action="store_true", help="few slots, long commands, clocks apart, slow lines")
    asked = parser.parse_args()
    began, events, starts, faults, bad = time.process_time(), 0, 0, 0, 0
    done = 0
    shown = False
    for seed in range(asked.first, asked.first + asked.seeds):
        world = simulate(seed, busy=asked.busy)
        violations = check(world.history)
        done += 1
        events, starts = events + world.events, starts + len(world.history.starts)
        faults += len(world.history.faults)
        if violations:
            bad += 1
            if not shown:
                shown = True
                _show(seed, violations)
                sys.stdout.write(trace(world.history, violations[0]) + "\n")
            if not asked.all:
                break
    took = time.process_time() - began
    sys.stdout.write(
        f"{done} seeds, {bad} with violations; {events} events, {starts} starts, {faults} faults; "
        f"{took:.1f} s, {events / max(took, 0.001):.0f} events/s\n"
    )
    return 1 if bad else 0


def _show(seed: int, violations: list[Violation]) -> None:
    sys.stdout.write(f"seed {seed}: {len(violations)} violations\n")
    for one in violations[:10]:
        sys.stdout.write(f"  {one.time} {one.promise}: {one.what}\n")


if __name__ == "__main__":
    sys.exit(main())
