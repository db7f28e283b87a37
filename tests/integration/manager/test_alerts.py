"""Open alerts through the API: by themselves, and those of one cause together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from common.access.selectors import Selector
from common.notices.silences import Silence
from common.verdicts import EventKind
from tests.support.alerts import alert_of, open_alerts_are
from tests.support.managing import Managed
from tests.support.open_runs import now_ms


async def test_alerts_of_one_cause_are_together_and_it_is_counted_whom_nobody_is_told_of(manager: Managed) -> None:
    began = now_ms() - 3_600_000
    alike = [alert_of(f"alike-{number:02}", began + number, told=("ops",) * (number < 5)) for number in range(25)]
    await open_alerts_are(
        manager, *alike, alert_of("other", began, exit_code=127, err="exit status 127"),
        alert_of("late", began, kind=EventKind.MISSED, exit_code=None, err=None, reason="no worker: w3 is gone"),
    )  # fmt: skip
    told = await manager.get("/api/v1/alerts", group="cause")
    assert (told["open"], told["untold"], told["items"], told["nextCursor"]) == (27, 22, [], None)
    first, *others = told["groups"]
    assert (first["cause"], first["kind"], first["exitCode"], first["count"], first["times"]) == (
        "failed: exit status 3", "failed", 3, 25, 25
    )  # fmt: skip
    assert (first["sinceTime"], first["jobs"]) == (began, [f"alike-{number:02}" for number in reversed(range(25))])
    assert [one["job"] for one in first["items"]] == first["jobs"][:20]
    assert {one["cause"] for one in others} == {"failed: exit status 127", "missed: no worker"}

    page = await manager.get("/api/v1/alerts", group="cause", limit="1")
    rest = await manager.get("/api/v1/alerts", group="cause", cursor=page["nextCursor"])
    assert [one["cause"] for one in (*page["groups"], *rest["groups"])] == [one["cause"] for one in told["groups"]]
    alone = await manager.get("/api/v1/alerts", cause="missed: no worker")
    assert [one["job"] for one in alone["items"]] == ["late"]


async def test_each_silence_is_asked_once_for_all_alerts_of_the_same_labels(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, asked = now_ms() - 3_600_000, Counter[str]()
    known = manager.parts.watching.notices.silences
    for number in range(100):
        hour_ms = 3_600_000 * (1 + number % 7)
        labels = Selector.of({"team": ["ours" if number == 50 else "theirs"]})
        known[f"{number:012}"] = Silence(labels=labels, from_ms=began, until_ms=now_ms() + hour_ms)
    last = known["j" * 12] = Silence(jobs=("j-07",), from_ms=began, until_ms=now_ms() + 86_400_000)
    known["f" * 12] = Silence(jobs=("j-08",), from_ms=now_ms() + 3_600_000, until_ms=now_ms() + 2 * 86_400_000)
    await open_alerts_are(manager, *(
        alert_of(f"j-{number:02}", began, labels={"team": "ours" if number < 20 else "none"}) for number in range(40)
    ))  # fmt: skip
    matches = Selector.matches

    def counted(self: Selector, labels: Mapping[str, str]) -> bool:
        asked["times"] += self.wanted is not None  # else it is of a right
        return matches(self, labels)

    monkeypatch.setattr(Selector, "matches", counted)
    items = {one["job"]: one["silencedUntil"] for one in (await manager.get("/api/v1/alerts"))["items"]}
    ours_ms = known[f"{50:012}"].until_ms
    assert (items["j-07"], items["j-08"], items["j-19"], items["j-20"]) == (last.until_ms, ours_ms, ours_ms, None)
    assert asked["times"] <= 2 * 100, "two kinds of labels"
