"""Runs every benchmark of this package (each module with a `main`), or those named: ``python -m bench cron_next``.

What a `main` returns (a mapping of figures, or nothing) goes into bench/results/<date>.json, with what machine it was.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import bench
from common.version import VERSION

_HOME = Path(bench.__file__).parent


def main(names: Sequence[str]) -> int:
    """Run them one after the other; 2 where a named one does not exist."""
    there = [module.name for module in pkgutil.iter_modules([str(_HOME)]) if not module.name.startswith("_")]
    unknown = [name for name in names if name not in there]
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(there)}", file=sys.stderr)
        return 2
    results: dict[str, object] = {}
    for name in names or there:
        run = getattr(importlib.import_module(f"bench.{name}"), "main", None)
        if run is not None:
            print(f"\n== {name}", flush=True)
            results[name] = run()
    print(f"\nwritten to {_write(results)}")
    return 0


def _write(results: Mapping[str, object]) -> Path:
    now = datetime.now(UTC)
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    report = {"at": now.isoformat(timespec="seconds"), "etcron": VERSION, **machine, "results": results}
    path = _HOME / "results" / f"{now:%Y-%m-%dT%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
