"""``python -m cli.embedded_log_store``: nx-27017, which takes text for text.

nx-27017 0.8 compares a text that begins like a date (a job called ``2024-01-01-backup``) as a date, and finds nothing.
etcron stores no dates, so that reading of a text is switched off. Real MongoDB has no such reading.
"""

from __future__ import annotations

from datetime import date
from typing import Any


def is_date(value: Any) -> bool:
    """Whether a value of a query is a date: no text is."""
    return isinstance(value, date)


def main() -> None:
    """Serve, with nx-27017's own command line."""
    from neosqlite.collection import datetime_utils
    from nx_27017.nx_27017 import main as serve

    datetime_utils.is_datetime_value = is_date
    serve()


if __name__ == "__main__":
    main()
