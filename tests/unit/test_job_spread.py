"""Jobs that fire together, apart: which schedules become which, and that none changes when it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from common.jobs.reader import parse_job
from common.jobs.spread import SpreadBy, spread, suggests_spread


@pytest.mark.parametrize(
    ("fields", "by", "becomes"),
    [
        ({"cronExpr": "0 2 * * *"}, SpreadBy.MINUTE, {"cronExpr": "H 2 * * *"}),
        ({"cronExpr": "@daily"}, SpreadBy.MINUTE, {"cronExpr": "H 0 * * *"}),
        ({"cronExpr": "30 0 2 * * MON 2027"}, SpreadBy.MINUTE, {"cronExpr": "30 H 2 * * MON 2027"}),
        ({"cronExpr": "* * * * *"}, SpreadBy.MINUTE, {"cronExpr": "H * * * * * *"}),
        ({"cronExpr": "*/15 * * * *"}, SpreadBy.MINUTE, {"cronExpr": "H/15 * * * *"}),
        ({"cronExpr": "5/15 * * * *"}, SpreadBy.MINUTE, {"cronExpr": "H/15 * * * *"}),
        # These go to the end of the hour alone, `H/15` all through it.
        ({"cronExpr": "45/15 * * * *"}, SpreadBy.MINUTE, {}),
        ({"cronExpr": "30/20 * * * *"}, SpreadBy.MINUTE, {}),
        ({"cronExpr": ["0 2 * * *", "0 3 * * *"]}, SpreadBy.MINUTE, {"cronExpr": ["H 2 * * *", "H 3 * * *"]}),
        ({"cronExpr": ["0 9 * * MON", "30 9 * * TUE"]}, SpreadBy.MINUTE, {"cronExpr": ["H 9 * * MON", "H 9 * * TUE"]}),
        ({"cronExpr": ["0 9 * * *", "0 9 * * MON"]}, SpreadBy.MINUTE, {"cronExpr": ["H 9 * * *", "H 9 * * MON"]}),
        # Both of an hour would be one.
        ({"cronExpr": ["0 9 * * *", "30 9 * * *"]}, SpreadBy.MINUTE, {}),
        ({"cronExpr": ["0 9 * * MON", "30 9 * * 1-5"]}, SpreadBy.MINUTE, {}),
        ({"cronExpr": ["0 * * * *", "H * * * *"]}, SpreadBy.MINUTE, {}),
        ({"cronExpr": ["*/15 * * * *", "5 12 * * *"]}, SpreadBy.MINUTE, {}),
        # At an hour of its own `*` and `H` meet changes of the clocks in different ways.
        ({"cronExpr": "*/15 2 * * *"}, SpreadBy.MINUTE, {}),
        ({"cronExpr": "*/7 * * * *"}, SpreadBy.MINUTE, {}),
        ({"cronExpr": "0,30 * * * *"}, SpreadBy.MINUTE, {}),
        ({"cronExpr": "H 2 * * *"}, SpreadBy.MINUTE, {}),
        ({"every": "30s"}, SpreadBy.MINUTE, {}),
        ({"every": "1h", "offset": "5m"}, SpreadBy.MINUTE, {}),
        ({"after": "30s"}, SpreadBy.JITTER, {}),
        ({"at": "2035-01-01T00:00:00Z"}, SpreadBy.JITTER, {}),
        ({"cronExpr": "0 2 * * *"}, SpreadBy.JITTER, {"jitterSeconds": 600}),
        ({"cronExpr": "0 2 * * *", "jitterSeconds": 900}, SpreadBy.JITTER, {}),
    ],
)
def test_what_becomes_of_a_schedule(fields: dict[str, Any], by: SpreadBy, becomes: dict[str, Any]) -> None:
    spec = parse_job({"name": "backup", "command": "true", **fields})
    assert spread(spec, by, 600).to_stored() == spec.to_stored() | becomes
    assert spread(spread(spec, by, 600), by, 600) == spread(spec, by, 600)


def test_intervals_start_at_a_minute_that_the_name_gives() -> None:
    specs = [parse_job({"name": f"j{number}", "command": "true", "every": "1h"}) for number in range(40)]
    offsets = {spread(spec, SpreadBy.MINUTE, 600).to_stored().get("offset") for spec in specs}
    assert len(offsets) > 20


@pytest.mark.parametrize(
    ("fields", "suggests"),
    [
        ({"cronExpr": "0 2 * * *"}, True),
        ({"cronExpr": "30 2 * * MON"}, True),
        ({"cronExpr": "@hourly"}, True),
        ({"cronExpr": "*/15 * * * *"}, True),
        ({"cronExpr": "* * * * *"}, True),
        ({"every": "1h"}, True),
        ({"cronExpr": "17 2 * * *"}, False),  # nobody takes such a minute by accident
        ({"cronExpr": ["0 2 * * *", "17 3 * * *"]}, False),
        ({"cronExpr": ["0 9 * * *", "0 18 * * *"]}, True),
        ({"cronExpr": ["0 9 * * *", "30 9 * * *"]}, False),
        ({"cronExpr": "30 0 2 * * * *"}, False),
        ({"cronExpr": "H 2 * * *"}, False),
        ({"cronExpr": "0,30 * * * *"}, False),
        ({"cronExpr": "45/15 * * * *"}, False),
        ({"every": "1h", "offset": "5m"}, False),
        ({"every": "30s"}, False),
        ({"after": "30s"}, False),
        ({"at": "2035-01-01T00:00:00Z"}, False),
        ({"cronExpr": "@reboot", "broadcast": True}, False),
    ],
)
def test_only_a_minute_that_nobody_has_chosen_is_suggested_to_be_spread(fields: dict[str, Any], suggests: bool) -> None:
    assert suggests_spread(parse_job({"name": "backup", "command": "true", **fields})) is suggests
