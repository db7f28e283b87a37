"""What the console tells of the jobs of a later call that failed; there is no page to draw on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scripts import evaluate

SCRIPT = """
  globalThis.window = globalThis;
  Object.assign(document, { addEventListener() {}, getElementById: () => null, querySelector: () => null });
  globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
  globalThis.sessionStorage = { getItem: () => null, setItem() {}, removeItem() {} };
  globalThis.location = { pathname: "/jobs", search: "", hash: "" };
  const file = globalThis.fetch, names = [...Array(250).keys()].map(String);
  let calls = 0;
  globalThis.fetch = async (url, request) => {
    if (!url.startsWith("/api/")) return file(url);
    const results = JSON.parse(request.body).names.map((name) => ({ name, ok: true, message: "deleted" }));
    const [status, body] = calls++ ? %s : [200, { results }];
    return { ok: status < 400, status, text: async () => JSON.stringify(body) };
  };
  const { onMany } = await js("many.js");
  const { results, error, doubt } = await onMany(names, { action: "delete" });
  return [results.length, doubt, error];
"""


@pytest.mark.parametrize(
    ("answer", "doubt", "says"),
    [
        pytest.param('[500, { code: "internal-error", detail: "oops." }]', 100, "may or may not", id="nobody expected"),
        pytest.param('[503, { code: "unavailable", detail: "oops.", inDoubt: true }]', 100, "oops", id="in doubt"),
        pytest.param('[503, { code: "unavailable", detail: "oops." }]', 0, "oops", id="not done"),
        pytest.param('[502, "a proxy"]', 100, "may or may not", id="a proxy says so"),
        pytest.param('[403, { code: "forbidden", detail: "oops." }]', 0, "oops", id="refused"),
    ],
)
def test_jobs_of_a_later_call_are_in_doubt_where_it_may_have_been_carried_out(
    answer: str, doubt: int, says: str
) -> None:
    found: Any = evaluate(SCRIPT % answer)
    assert found[:2] == [100, doubt]
    assert says in found[2]
