"""The reference that is made from what runs: ``python -m docs.build.reference`` writes it anew.

    reference/commands.md        commands.py        reference/calls.md      calls.py
    reference/configuration.md   configuration.py   reference/fields.md     fields.py
    reference/reasons.md         reasons.py         reference/metrics.md    metrics.py

The pages are committed, so that a forge shows them; `tests/docs/test_reference.py` fails where they are not what this writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from docs.build import calls, commands, configuration, fields, metrics, reasons

DOCS: Final = Path(__file__).parents[1]
_MADE: Final = "\n\n<!-- Made by `make docs` from what runs: change that, not this page. -->\n"
PAGES: Final = {
    "reference/commands.md": commands.page,
    "reference/configuration.md": configuration.page,
    "reference/calls.md": calls.page,
    "reference/fields.md": fields.page,
    "reference/metrics.md": metrics.page,
    "reference/reasons.md": reasons.page,
}


def texts() -> dict[str, str]:
    """Each page's text, by its place below `docs`."""
    return {place: page().replace("\n", _MADE, 1) for place, page in PAGES.items()}


if __name__ == "__main__":
    for place, text in texts().items():
        (DOCS / place).write_text(text, encoding="utf-8")
