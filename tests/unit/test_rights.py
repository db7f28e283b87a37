"""What bindings allow: a right comes from one binding as a whole, and absence grants nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.access.rights import OWNER, WORKER, Binding, Grant, Rights, Role, guarded_labels
from common.access.selectors import EVERYTHING, Selector
from common.access.subjects import Subject
from common.errors import ForbiddenError, NotFoundError
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job

BILLING, SALES = Selector.of({"team": ["billing"]}), Selector.of({"team": ["sales"]})
MINE, THEIRS, BARE = {"team": "billing"}, {"team": "sales"}, dict[str, str]()


def grant(role: Role, labels: Selector = BILLING, run_as: object = (WORKER,), workers: Selector = EVERYTHING) -> Grant:
    return Grant(role=role, labels=labels, run_as=None if run_as is None else frozenset(run_as), workers=workers)  # type: ignore[call-overload]


def job(labels: Mapping[str, str] = MINE, **fields: object) -> JobSpec:
    return parse_job({"name": "j", "command": "true", "every": "1h", "labels": dict(labels), **fields})


@pytest.mark.parametrize("role", Role)
def test_role_may_what_those_before_it_may_and_no_more(role: Role) -> None:
    rights = Rights((grant(role),))
    allowed = [needed for needed in Role if rights.may(needed, MINE)]
    assert allowed == list(Role)[: list(Role).index(role) + 1]
    assert not any(rights.may(needed, THEIRS) or rights.may(needed, BARE) for needed in Role)


def test_who_has_no_binding_may_nothing_at_all() -> None:
    assert not any(Rights().may(role, labels) for role in Role for labels in (MINE, THEIRS, BARE))


def test_owner_may_everything() -> None:
    assert all(OWNER.may(role, labels) for role in Role for labels in (MINE, THEIRS, BARE))
    OWNER.check_save(job(BARE, user="root", workers={"zone": "eu"}), THEIRS, is_new=False)


def test_empty_selector_cannot_be_made() -> None:
    things: list[object] = [{}, {"team": []}, [], None, "", "everything"]
    for nothing in things:
        with pytest.raises(ValueError, match=r"names nothing|neither"):
            Selector.from_json(nothing)


def test_hidden_job_is_told_as_missing_and_visible_one_as_forbidden() -> None:
    rights = Rights((grant(Role.VIEWER),))
    with pytest.raises(NotFoundError):
        rights.check(Role.OPERATOR, THEIRS, "job secret")
    with pytest.raises(ForbiddenError):
        rights.check(Role.OPERATOR, MINE, "job j")


@dataclass(frozen=True)
class Save:
    grants: tuple[Grant, ...]
    spec: JobSpec
    before: Mapping[str, str] | None
    allowed: bool


EDITOR = grant(Role.EDITOR)
SAVES = {
    "new, within the labels": Save((EDITOR,), job(), None, True),
    "new, without labels": Save((EDITOR,), job(BARE), None, False),
    "relabelled away": Save((EDITOR,), job(THEIRS), MINE, False),
    "taken from others by relabelling": Save((EDITOR,), job(), THEIRS, False),
    "as the worker's user, which is not granted": Save((grant(Role.EDITOR, run_as=("backup",)),), job(), None, False),
    "as a granted user": Save((grant(Role.EDITOR, run_as=("backup",)),), job(user="backup"), None, True),
    "as root": Save((EDITOR,), job(user="root"), None, False),
    "as anybody, where all are granted": Save((grant(Role.EDITOR, run_as=None),), job(user="root"), None, True),
    "no user granted at all": Save((grant(Role.EDITOR, run_as=()),), job(), None, False),
    "anywhere, where a zone is granted": Save(
        (grant(Role.EDITOR, workers=Selector.of({"zone": ["eu"]})),), job(), None, False),
    "within the zone": Save(
        (grant(Role.EDITOR, workers=Selector.of({"zone": ["eu", "us"]})),), job(workers={"zone": "eu"}), None, True),
    "in one zone more": Save(
        (grant(Role.EDITOR, workers=Selector.of({"zone": ["eu"]})),), job(workers={"zone": ["eu", "us"]}), None, False),
    "operator saves": Save((grant(Role.OPERATOR),), job(), MINE, False),
    "role of one binding, labels of another": Save(
        (grant(Role.EDITOR, SALES), grant(Role.OPERATOR)), job(), MINE, False),
    "user of one binding, zone of another": Save(
        (grant(Role.EDITOR, run_as=("root",), workers=Selector.of({"zone": ["eu"]})), EDITOR),
        job(user="root"), None, False),
    "moved between two teams by an editor of both": Save((EDITOR, grant(Role.EDITOR, SALES)), job(THEIRS), MINE, True),
}  # fmt: skip


@pytest.mark.parametrize("name", SAVES)
def test_save_needs_one_binding_that_allows_all_of_it(name: str) -> None:
    case = SAVES[name]
    if case.allowed:
        Rights(case.grants).check_save(case.spec, case.before, is_new=case.before is None)
    else:
        with pytest.raises(ForbiddenError):
            Rights(case.grants).check_save(case.spec, case.before, is_new=case.before is None)


@pytest.mark.parametrize(
    ("labels", "before", "allowed"),
    [
        ({"team": "billing", "env": "prod"}, None, False),
        ({"team": "billing", "env": "test"}, None, True),
        ({"team": "billing", "env": "prod"}, {"team": "billing", "env": "prod"}, True),
        ({"team": "billing", "env": "prod"}, {"team": "sales", "env": "prod"}, False),
        ({"team": "billing", "colour": "red"}, None, True),
    ],
    ids=["another's", "one's own by another binding", "it has it already", "a hidden job has it", "nobody's"],
)
def test_label_by_which_editors_are_bound_is_given_by_those_who_are_bound_to_it(
    labels: dict[str, str], before: dict[str, str] | None, allowed: bool
) -> None:
    ours = (
        EDITOR,
        grant(Role.EDITOR, Selector.of({"env": ["test"]})),
        grant(Role.VIEWER, Selector.of({"env": ["prod"]})),
    )
    others = (grant(Role.ADMIN, Selector.of({"env": ["prod"]})), grant(Role.VIEWER, Selector.of({"colour": ["red"]})))
    bindings = [Binding(id="", subject=Subject.parse("user:x"), grant=one) for one in (*ours, *others)]
    rights = Rights(ours, guarded_labels(bindings)).capped(Role.EDITOR)
    if allowed:
        rights.check_save(job(labels), before, is_new=before is None)
        return
    with pytest.raises(ForbiddenError, match="may not get the label env=prod"):
        rights.check_save(job(labels), before, is_new=before is None)


def test_editor_hears_that_a_name_is_taken_and_nothing_of_who_has_it() -> None:
    with pytest.raises(ForbiddenError) as refused:
        Rights((EDITOR,)).check_save(job(), {"team": "payroll"}, is_new=False)
    assert "taken" in str(refused.value)
    assert "payroll" not in str(refused.value)


def test_capped_rights_keep_their_reach_and_lose_their_role() -> None:
    rights = Rights((grant(Role.ADMIN), grant(Role.VIEWER, SALES))).capped(Role.OPERATOR)
    assert rights.may(Role.OPERATOR, MINE)
    assert not rights.may(Role.EDITOR, MINE)
    assert not rights.may(Role.OPERATOR, THEIRS)


LABELS = st.dictionaries(st.sampled_from(["team", "zone"]), st.sampled_from(["a", "b", "c"]), max_size=2)
SELECTORS = st.one_of(
    st.just(EVERYTHING),
    st.dictionaries(
        st.sampled_from(["team", "zone"]), st.frozensets(st.sampled_from(["a", "b", "c"]), min_size=1), min_size=1
    ).map(Selector),
)


@given(SELECTORS, LABELS)
def test_selector_matches_exactly_what_names_each_of_its_labels(selector: Selector, labels: dict[str, str]) -> None:
    wanted = selector.wanted or {}
    assert selector.matches(labels) == all(label in labels and labels[label] in wanted[label] for label in wanted)


@given(SELECTORS, SELECTORS, LABELS)
def test_what_a_selector_holds_it_also_matches(outer: Selector, inner: Selector, labels: dict[str, str]) -> None:
    if outer.holds(inner.wanted or {}) and inner.matches(labels):
        assert outer.matches(labels)


@given(SELECTORS, st.sampled_from(Role), st.frozensets(st.sampled_from(["root", "www", WORKER])), SELECTORS)
def test_binding_is_read_back_as_it_was_written(
    labels: Selector, role: Role, run_as: frozenset[str], workers: Selector
) -> None:
    made = Grant(role=role, labels=labels, run_as=run_as, workers=workers)
    binding = Binding(id="b", subject=Subject.parse("group:dba"), grant=made)
    assert Binding.from_document(binding.to_document(), id="b") == binding
