"""Runs the benchmarks, or those named, one after the other: ``python -m bench burst --rounds 3``.

Each prints one table (medians and ranges over its rounds, goals beside them); all of it goes into
bench/results/<date>.json, with what machine it was. The exit status is 1 where something was missed or done twice, and
says nothing about goals. The other modules here (cron_next, house, spawn) are run by themselves.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import bench
from bench.figures import Bench, summaries
from bench.tables import table
from common.version import VERSION

_HOME: Final = Path(bench.__file__).parent
_INSTALLED: Final = ("cli", "common", "manager", "webroot", "worker")
NAMES: Final = ("burst", "ontime", "cost", "scale", "failover", "logs")
MORE: Final = ("told", "simulate", "looks", "limits", "million", "console")
"""How far it goes (docs/operate/scaling.md), and the console: they run only when they are named."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures etcron on this machine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)} (all); {', '.join(MORE)}")
    parser.add_argument("--rounds", type=int, default=1, help="how often each (1)")
    parser.add_argument("--share", type=float, default=1.0, help="of the full sizes, to try whether it works (1.0)")
    given = parser.parse_args(argv)
    unknown = [name for name in given.names if name not in NAMES + MORE]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES + MORE)}")
    for folder in _INSTALLED:  # as installing does: a process that starts compiles nothing
        compileall.compile_dir(_HOME.parent / folder, quiet=1)
    results: dict[str, Any] = {}
    for name in given.names or NAMES:
        results[name] = _measured(name, given.rounds, given.share)
    print(f"\nwritten to {_write(results, given)}")
    return 1 if any(result["wrong"] for result in results.values()) else 0


def _measured(name: str, rounds: int, share: float) -> dict[str, Any]:
    """All rounds of one benchmark, printed."""
    module = importlib.import_module(f"bench.{name}")
    print(f"\n== {name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
    began, gathered, wrong = time.monotonic(), [], ""
    for _ in range(rounds):
        try:
            gathered.append(cast(Bench, module).one_round(share))
        except (RuntimeError, AssertionError) as error:  # a WrongError, or a server that does not come up
            wrong = str(error)
            print(f"WRONG: {wrong}", flush=True)
    of_all = summaries(gathered)
    if of_all:
        print(table(of_all), flush=True)
    took_s = round(time.monotonic() - began, 1)
    print(f"{len(gathered)} of {rounds} rounds, {took_s:g} s", flush=True)
    return {"took_s": took_s, "wrong": wrong, "figures": [summary.to_document() for summary in of_all]}


def _write(results: dict[str, Any], given: argparse.Namespace) -> Path:
    now = datetime.now(UTC)
    report = {
        "at": now.isoformat(timespec="seconds"), "etcron": VERSION, "commit": _commit(), "rounds": given.rounds,
        "share": given.share, "machine": _machine(), "results": results,
    }  # fmt: skip
    path = _HOME / "results" / f"{now:%Y-%m-%dT%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _machine() -> dict[str, object]:
    load = os.getloadavg()[0]
    return {
        "cores": len(os.sched_getaffinity(0)), "machine": platform.machine(), "kernel": platform.release(),
        "python": platform.python_version(), "loadAtEnd": round(load, 2),
    }  # fmt: skip


def _commit() -> str:
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=_HOME, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
