"""What a page of the console does as sessions come and go in other tabs; there is no page to draw on."""

from __future__ import annotations

from typing import Any

from tests.support.scripts import evaluate

PAGE = """
  globalThis.window = globalThis;
  const tabs = [], went = [], note = { childElementCount: 0, scrollIntoView() {}, append() {}, setAttribute() {} };
  const kept = new Map(), calls = [], answers = [], typed = [];
  globalThis.BroadcastChannel = class {
    addEventListener(_, listen) { tabs.push(listen); }
    removeEventListener() {}
    postMessage(data) { if (data.wanted) tell(whenAsked); }
  };
  const tell = (data) => data && tabs.forEach((listen) => listen({ data }));
  let whenAsked = null;
  globalThis.sessionStorage = {
    getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => kept.set(key, text),
    removeItem: (key) => kept.delete(key),
  };
  globalThis.location = {
    pathname: "/jobs", search: "", hash: "", assign: (url) => went.push(url), reload: () => went.push("again"),
  };
  Object.assign(document, {
    addEventListener: (_, listen) => typed.push(listen), querySelector: () => ({}), getElementById: () => note,
    createElement: () => ({ ...note }), createElementNS: () => ({ ...note }),
  });
  note.replaceChildren = () => { note.childElementCount = 1; };
  globalThis.Node = Object;
  const file = globalThis.fetch;
  globalThis.fetch = async (url, request) => {
    if (!url.startsWith("/api/")) return file(url);
    calls.push([url.replace("/api/v1", ""), request.headers["X-Etcron-Session"] ?? ""]);
    const [status, body] = answers.shift();
    return { ok: status < 400, status, text: async () => JSON.stringify(body) };
  };
  const session = (name) => [200, { name, via: "session", auth: "required", roles: [], bindings: [] }];
  const over = [401, { code: "login-needed", detail: "log in" }];
  kept.set("etcron.session", "of alice");
  const { findCaller } = await js("caller.js"), { send } = await js("api.js");
  answers.push(session("alice"), over, [200, { message: "done" }]);
  await findCaller();
  const pause = () => send("POST", "/jobs/pay/pause").then(({ message }) => message, ({ message }) => message);
"""
"""A page of alice's, with a stub of what a browser has."""


def told(script: str) -> Any:
    return evaluate(f"{PAGE} {script}")


def test_call_that_a_session_s_end_refused_goes_out_again_with_the_next_session_of_the_same_user() -> None:
    script = 'whenAsked = { secret: "new of alice", owner: "alice" }; return [await pause(), calls.slice(1), went];'
    sent = [["/jobs/pay/pause", "of alice"], ["/jobs/pay/pause", "new of alice"]]
    assert told(script) == ["done", sent, []]


def test_call_that_a_session_s_end_refused_does_not_go_out_as_another_user_s() -> None:
    message, sent, went = told(
        'whenAsked = { secret: "of bob", owner: "bob" }; return [await pause(), calls.slice(1), went];'
    )
    assert "bob has logged in here" in message
    assert sent == [["/jobs/pay/pause", "of alice"]]
    assert set(went) == {"again"}


def test_page_is_loaded_again_once_another_user_has_logged_in_elsewhere() -> None:
    assert told('tell({ secret: "", owner: "" }); tell({ secret: "of bob", owner: "bob" }); return went;') == ["again"]


def test_page_on_which_something_is_typed_stays_and_sends_nothing_as_another_user() -> None:
    script = """
      typed.forEach((listen) => listen({ target: { closest: () => ({}) } }));
      tell({ secret: "of bob", owner: "bob" });
      const refused = await pause(), sent = calls.length - 1;
      tell({ secret: "new of alice", owner: "alice" });
      answers.shift();
      return [refused, sent, await pause(), calls.length - 1, went];"""
    refused, sent, *rest = told(script)
    assert "bob has logged in here" in refused
    assert sent == 0
    assert rest == ["done", 1, []]


def test_what_is_heard_of_the_same_user_changes_nothing() -> None:
    assert told('tell({ secret: "x", owner: "alice" }); tell({ secret: "y" }); return went;') == []


def test_page_that_is_loaded_while_another_user_logs_in_is_theirs() -> None:
    script = """
      answers.unshift(session("alice"), session("bob"));
      const { otherUser } = await js("secret.js"), asked = findCaller();
      tell({ secret: "of bob", owner: "bob" });
      return [(await asked).name, kept.get("etcron.owner"), otherUser()];"""
    page = PAGE.replace('answers.push(session("alice"), over', "answers.push(over").replace("await findCaller();", "")
    assert evaluate(f"{page} {script}") == ["bob", "bob", ""]


def test_session_of_which_a_tab_does_not_know_whose_it_is_lets_nothing_go_out_as_another_user_s() -> None:
    script = """
      tell({ secret: "of bob", owner: "bob" });
      tell({ secret: "of bob", owner: "" });
      return [await pause(), calls.length, kept.get("etcron.owner")];"""
    refused, *rest = told(script)
    assert "bob has logged in here" in refused
    assert rest == [1, "bob"]


def test_token_that_is_shown_once_stays_when_another_user_logs_in() -> None:
    script = """
      typed.forEach((listen) => listen({ target: { closest: () => ({}) } }));
      const there = [".modal", ".modal input", "input"];
      document.querySelector = (wanted) => wanted.split(", ").find((one) => there.includes(one)) ?? null;
      tell({ secret: "of bob", owner: "bob" });
      return went;"""
    assert told(script) == []


def test_page_that_nobody_touches_says_so_of_what_it_asks_by_itself() -> None:
    told = evaluate("""
      globalThis.window = globalThis;
      let now = 0;
      performance.now = () => now;
      const sent = [];
      globalThis.sessionStorage = { getItem: () => null };
      globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} removeEventListener() {} };
      const { get } = await js("api.js");
      globalThis.fetch = async (url, { headers }) => {
        sent.push("X-Etcron-Unattended" in headers);
        return { ok: true, status: 200, text: async () => "{}" };
      };
      const asks = async (at, event) => {
        now = at;
        if (event) document.dispatchEvent(event);
        await get("/alerts");
      };
      document.getElementById = () => null;
      const moved = (by) => Object.assign(new Event("pointermove"), { movementX: by, movementY: 0 });
      await asks(59_000);
      await asks(61_000);
      await asks(62_000, moved(0));
      await asks(63_000, moved(1));
      await asks(124_000);
      await asks(125_000, new Event("keydown"));
      return sent;
    """)
    assert told == [False, True, True, False, True, False]
