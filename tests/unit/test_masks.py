"""Values of variables, masked for who may not read them; a masked document is not saved."""

from __future__ import annotations

import pytest

from common.access.masks import MASK, refuse_masks, shown_spec
from common.access.rights import OWNER, Grant, Rights, Role
from common.access.selectors import EVERYTHING, Selector
from common.errors import InvalidInputError

OURS = {"team": "ours"}
ENV = {"PASSWORD": "secret", "LEVEL": ""}
JOB = {"name": "j", "command": "true", "env": ENV, "labels": OURS}


def rights(role: Role) -> Rights:
    return Rights((Grant(role=role, labels=Selector.of({"team": ["ours"]}), run_as=None, workers=EVERYTHING),))


def test_viewer_reads_the_names_of_variables_and_no_value() -> None:
    shown = shown_spec(JOB, rights(Role.VIEWER), OURS)
    assert shown == JOB | {"env": {"PASSWORD": MASK, "LEVEL": MASK}}
    assert ENV == {"PASSWORD": "secret", "LEVEL": ""}


def test_operator_reads_values_where_they_are_one() -> None:
    assert shown_spec(JOB, rights(Role.OPERATOR), OURS) == JOB
    assert shown_spec(JOB, rights(Role.OPERATOR), {"team": "theirs"})["env"] == {"PASSWORD": MASK, "LEVEL": MASK}
    assert shown_spec(JOB, OWNER, {}) == JOB


def test_what_is_no_environment_is_masked_as_a_whole() -> None:
    shown = shown_spec({"command": "true", "env": "PASSWORD=secret"}, rights(Role.VIEWER), OURS)
    assert shown == {"command": "true", "env": MASK}


def test_environment_that_was_read_masked_is_refused_and_each_value_is_named() -> None:
    with pytest.raises(InvalidInputError) as refused:
        refuse_masks({"PASSWORD": MASK, "LEVEL": "debug", "TOKEN": MASK}, ENV)
    assert [problem.field for problem in refused.value.problems] == ["env.PASSWORD", "env.TOKEN"]
    refuse_masks(ENV, {})


def test_value_that_is_the_mask_and_was_it_before_is_saved() -> None:
    refuse_masks({"PASSWORD": MASK}, {"PASSWORD": MASK})
