"""What failed, from pytest's JUnit files: python -m tests.support.failed FILE...

How many, from the list that pytest's cache keeps of them: python -m tests.support.failed --count LIST
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

_LINES = 40  # of each failure: its end says most


def main(paths: list[str]) -> None:
    if paths[0] == "--count":
        print(len(json.loads(Path(paths[1]).read_text())))  # noqa: T201
        return
    for path in paths:
        if not Path(path).is_file():
            print(f"{path}: pytest ended before it wrote this")  # noqa: T201
            continue
        for line in summary(Path(path)):
            print(line)  # noqa: T201


def summary(path: Path) -> list[str]:
    """The lines for one file: its figures, then each failure or error with the end of its report."""
    lines: list[str] = []
    for suite in ET.parse(path).getroot().iter("testsuite"):
        figures = {key: suite.get(key, "0") for key in ("tests", "failures", "errors", "skipped")}
        lines.append(f"{path.name}: " + ", ".join(f"{value} {key}" for key, value in figures.items()))
        for case in suite.iter("testcase"):
            for trouble in (*case.iter("failure"), *case.iter("error")):
                lines.append(f"---- {trouble.tag}: {case.get('classname')}::{case.get('name')} ({case.get('time')} s)")
                lines += (trouble.text or "").splitlines()[-_LINES:]
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
