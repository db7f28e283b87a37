"""What the console reckons from what a manager tells."""

from __future__ import annotations

import json
from typing import Any

from tests.support.scripts import evaluate


def newest(*verdicts: str) -> str:
    return str([{"status": verdict, "planTime": place} for place, verdict in enumerate(verdicts)]).replace("'", '"')


def tallied(*verdicts: str) -> dict[str, Any]:
    script = f'const {{ tally }} = await js("job/tally.js"); return tally({newest(*verdicts)});'
    found: dict[str, Any] = evaluate(script)
    return found


def test_fires_that_were_missed_count_against_a_job() -> None:
    found = tallied("success", "skipped", "missed", "success", "skipped", "success")
    assert (found["good"], found["owed"], found["missed"], found["missedMs"]) == (3, 4, 1, 2)
    assert (found["streak"], found["since"]) == (2, 3), "of those that ran: skipped ones are none"
    assert tallied("success", "failed", "missed")["streak"] == 2


def test_a_verdict_of_a_later_version_ends_no_row_of_failures() -> None:
    assert tallied("success", "failed", "postponed", "lost")["streak"] == 2


def steps(**times: int | str) -> list[list[Any]]:
    script = f'const {{ stepsOf }} = await js("run/steps.js"); return stepsOf({json.dumps(times)});'
    return [[one["name"], one["ms"], one.get("isAhead", False)] for one in evaluate(script)]


def test_steps_of_a_run_stand_in_the_order_of_their_times() -> None:
    ahead = steps(state="finished", planTime=1000, createTime=800, claimTime=800, startTime=1001, endTime=1500)
    assert ahead == [["claimed", 800, True], ["planned", 1000, False], ["started", 1001, False], ["ended", 1500, False]]
    asked = steps(state="running", planTime=1000, createTime=5000, claimTime=5001)
    assert [name for name, *_ in asked] == ["planned", "created", "claimed", "started", "ended"]
    assert asked[2] == ["claimed", 5001, False]
    missed = steps(state="finished", status="missed", planTime=1000, createTime=9000, endTime=9000)
    assert missed == [["planned", 1000, False], ["recorded", 9000, False]]
    waits = steps(state="created", planTime=9000, createTime=5000)
    assert [one[:2] for one in waits] == [
        ["created", 5000], ["planned", 9000], ["claimed", None], ["started", None], ["ended", None],
    ]  # fmt: skip


SAID = "one\n::progress 40% copying\ntwo\n::progressing\n ::progress 3\n::progress 41\n::progress x\nlast\n"


def test_lines_that_tell_the_progress_are_not_shown_however_they_come() -> None:
    script = f"""
      const {{ ProgressLines }} = await js("run/progress_lines.js");
      return [1, 2, 3, 7, 1000].map((size) => {{
        const lines = new ProgressLines(), text = {json.dumps(SAID)};
        let shown = "";
        for (let at = 0; at < text.length; at += size) {{
          shown += lines.without(text.slice(at, at + size), at + size >= text.length);
        }}
        return [shown, lines.count];
      }});"""
    assert evaluate(script) == [["one\ntwo\n::progressing\n ::progress 3\n::progress x\nlast\n", 2]] * 5


def test_last_line_that_says_something_is_what_stands_for_an_output() -> None:
    texts = ["a\nno such host\r\n::progress 80% b\n\n  \n", "\033[31mred\033[0m", "::progress 1\n", "", "x" * 1000]
    script = f'const {{ lastLineOf }} = await js("run/progress_lines.js"); return {json.dumps(texts)}.map(lastLineOf);'
    assert evaluate(script) == ["no such host", "red", "", "", "x" * 300]


def levels(*hours: tuple[float, float]) -> tuple[str, list[int]]:
    items = [{"time": place, "fires": fires, "slots": slots} for place, (fires, slots) in enumerate(hours)]
    script = f"""
      const {{ heatScale }} = await js("timeline/levels.js"), items = {json.dumps(items)};
      const {{ by, level }} = heatScale(items);
      return [by, items.map(level)];"""
    by, found = evaluate(script)
    return by, found


def test_crowded_hours_stand_out_of_a_week_of_frequent_jobs() -> None:
    assert levels((3600, 2), (3787, 32), (3600, 2), (3620, 17), (0, 0)) == ("slots", [1, 5, 1, 3, 0])
    assert levels((10, 1), (187, 1), (90, 1.2)) == ("fires", [1, 5, 3]), "as many slots in each: the fires count"
    assert levels((3786, 21), (3948, 23), (3786, 21)) == ("fires", [1, 5, 1]), "180 more of them are seen"
    assert levels((60, 1), (60, 1), (61, 1)) == ("fires", [2, 2, 2]), "nearly alike"
    assert levels((0, 0)) == ("fires", [0])


def until_monday(*times: str) -> list[str]:
    """When a week of work begins for who looks at these times of Berlin's clocks, by these clocks."""
    script = f"""
      process.env.TZ = "Europe/Berlin";
      const {{ full, mondayMs }} = await js("zones.js");
      return {json.dumps(times)}.map((time) => full(mondayMs(Date.parse(time)), "Europe/Berlin").slice(0, 19));"""
    found: list[str] = evaluate(script)
    return found


def test_silence_until_monday_ends_with_the_night_when_it_is_monday_already() -> None:
    before = until_monday("2026-11-27T12:00:00", "2026-11-29T23:50:00", "2026-11-30T00:10:00", "2026-11-30T07:59:59")
    assert before == ["2026-11-30 08:00:00"] * 4
    after = until_monday("2026-11-30T08:00:00", "2026-11-30T17:00:00", "2026-12-01T01:00:00")
    assert after == ["2026-12-07 08:00:00"] * 3
    assert until_monday("2026-10-24T12:00:00") == ["2026-10-26 08:00:00"], "the clocks are turned back on Sunday"


def test_fields_for_times_are_of_the_zone_that_the_page_shows() -> None:
    script = """
      process.env.TZ = "Europe/Berlin";
      const { choose } = await js("zones.js"), { instant, showTimes, typed } = await js("moments.js");
      const field = () => ({ previousElementSibling: {} }), form = { elements: { from: field(), to: field() } };
      return ["mine", "utc", "job"].map((mode) => {
        choose(mode);
        showTimes(form, { from: "2026-11-29T01:10:00Z", to: "" });
        const { from, to } = form.elements, label = from.previousElementSibling.textContent;
        return [label, from.value, to.value, typed("2026-11-29T02:10"), instant("2026-11-29T02:10"), typed("")];
      });"""
    hour_before = "2026-11-29T01:10:00.000Z"
    mine = ["From (Europe/Berlin)", "2026-11-29T02:10", "", hour_before, hour_before, ""]
    utc = ["From (UTC)", "2026-11-29T01:10", "", "2026-11-29T02:10:00.000Z", hour_before, ""]
    assert evaluate(script) == [mine, utc, mine]


def test_link_of_the_timeline_is_followed_by_a_key_after_the_chart_was_dragged() -> None:
    script = """
      const { startPointers } = await js("timeline/view.js"), area = new EventTarget();
      startPointers(area, { pan() {}, done() {} }, () => ({ left: 0, width: 100 }));
      const pointer = (type, x) => Object.assign(new Event(type), { button: 0, pointerId: 1, clientX: x, clientY: 0 });
      area.dispatchEvent(pointer("pointerdown", 10));
      window.dispatchEvent(pointer("pointermove", 60));
      window.dispatchEvent(pointer("pointerup", 60));
      return [1, 0].map((detail) => area.dispatchEvent(new CustomEvent("click", { cancelable: true, detail })));"""
    assert evaluate(script) == [False, True]
