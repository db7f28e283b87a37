"""How the console changes what a user may do, with a manager whose answers are slow or lost."""

from __future__ import annotations

from typing import Any

from tests.support.scripts import evaluate

PAGE = """
  const made = [], shown = [], calls = [];
  class Element extends EventTarget {
    constructor(tag) {
      super();
      made.push(Object.assign(this, { tag, inside: [], value: "", isConnected: true }));
    }
    classes = new Set();
    classList = {
      toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)),
      contains: (name) => this.classes.has(name),
    };
    append(...more) { this.inside.push(...more); }
    replaceChildren(...others) { this.inside = others; }
    setAttribute(name, text) { this[name] = text; }
    set textContent(text) { this.inside = [text]; this.value = text; }
    get textContent() { return this.inside.map((one) => one.textContent ?? one).join(""); }
    remove() { shown.splice(0, 1); }
  }
  globalThis.Node = Element;
  document.body.append = (one) => shown.push(one);
  const places = {};
  Object.assign(document, {
    createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag),
    getElementById: (id) => (places[id] ??= new Element("div")), querySelector: () => shown[0] ?? null,
  });
  globalThis.sessionStorage = { getItem: () => null, setItem() {}, removeItem() {} };
  window.setTimeout = window.clearTimeout = () => 0;
  window.bootstrap = {
    Modal: class {
      constructor(element) { this.element = element; }
      show() {}
      hide() { this.element.dispatchEvent(new Event("hidden.bs.modal")); }
      dispose() {}
    },
  };
  const file = globalThis.fetch, carol = { name: "carol", groups: ["ops"], revision: 7 };
  let isLost = false;
  globalThis.fetch = async (url, { method, headers, body }) => {
    if (!url.startsWith("/api/")) return file(url);
    const answer = (status, document) => ({ ok: status < 400, status, text: async () => JSON.stringify(document) });
    calls.push(method);
    if (method === "GET") return answer(200, carol);
    if (headers["If-Match"] !== `"${carol.revision}"`) return answer(412, { code: "stale-revision", detail: "stale" });
    Object.assign(carol, { groups: JSON.parse(body).groups.toSorted(), revision: carol.revision + 1 });
    if (isLost) throw new TypeError("the connection is lost");
    return answer(200, carol);
  };
  const settled = () => new Promise((resolve) => setTimeout(resolve));
  const { changeUser } = await js("access/accounts.js");
  const find = (key, value) => made.find((one) => one[key] === value);
  const press = async () => {
    find("tag", "form").dispatchEvent(new Event("submit"));
    for (let turn = 0; turn < 9; turn++) await settled();
    return find("role", "alert").textContent;
  };
"""
"""A stub of what a browser has, and of a manager who knows carol."""


def told(script: str) -> Any:
    return evaluate(f"{PAGE} {script}")


LOST = """
  const done = changeUser("groups", { name: "carol" });
  await settled();
  find("tag", "textarea").value = "ops\\ndev";
  isLost = true;
  const first = await press();
  isLost = false;
"""


def test_groups_whose_change_lost_its_answer_are_changed_when_that_is_asked_for_again() -> None:
    first, *rest = told(f"{LOST} await press(); return [first, await done, shown.length, carol.groups];")
    assert "This may or may not have been done" in first
    assert rest == [True, 0, ["dev", "ops"]]


def test_groups_that_somebody_else_has_changed_meanwhile_are_not_overwritten() -> None:
    script = 'Object.assign(carol, { groups: ["dba"], revision: 9 }); return [await press(), carol.groups];'
    problem, groups = told(f"{LOST} {script}")
    assert "Somebody else has changed carol meanwhile" in problem
    assert groups == ["dba"]


def test_double_click_on_groups_opens_one_dialog() -> None:
    script = """
      const both = [changeUser("groups", { name: "carol" }), changeUser("groups", { name: "carol" })];
      await both[1];
      return [calls.length, shown.length];"""
    assert told(script) == [2, 1]
