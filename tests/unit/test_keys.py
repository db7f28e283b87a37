"""Every key is spelled in one way, and read back; what is spelled otherwise names nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.keys import MAX_MARK_MS, Keys, RunId, Watched, decode_mark, encode_mark, sequence_name
from tests.support.poison import PREFIXES

KEYS = Keys("/etcron")
JOBS = st.from_regex(r"[A-Za-z0-9._-]{1,128}", fullmatch=True).filter(lambda name: name not in {".", ".."})
FIRES = st.integers(0, MAX_MARK_MS).map(str) | st.from_regex(r"r-[a-z0-9]{1,20}", fullmatch=True)
RUN_IDS = st.builds(RunId, JOBS, FIRES, st.integers(1, 999))


@given(run_id=RUN_IDS)
def test_run_is_read_back_from_each_of_its_keys(run_id: RunId) -> None:
    for key in (KEYS.run(run_id), KEYS.request(run_id), KEYS.kill(run_id)):
        assert KEYS.run_of(key) == run_id
    assert RunId.parse(str(run_id)) == run_id


def test_every_prefix_has_its_poison() -> None:
    spelled = {getattr(KEYS, one) for one in Keys.__slots__ if one != "prefix"}
    assert {one.removeprefix(KEYS.prefix).partition("/")[0] for one in spelled} == set(PREFIXES)


@given(mark=st.integers(0, MAX_MARK_MS))
def test_mark_is_16_digits_and_read_back(mark: int) -> None:
    assert len(encode_mark(mark)) == 16
    assert decode_mark(encode_mark(mark)) == mark


@given(first=st.integers(0, MAX_MARK_MS), second=st.integers(0, MAX_MARK_MS))
def test_keys_of_a_job_sort_as_its_fires_do(first: int, second: int) -> None:
    one, other = (KEYS.run(RunId.planned("job", plan_ms)) for plan_ms in (first, second))
    assert (one < other) == (first < second)


@given(job=JOBS)
def test_job_is_read_back_from_each_of_its_keys(job: str) -> None:
    assert {KEYS.job_of(key) for key in (KEYS.job(job), KEYS.mark(job), KEYS.lock(job))} == {job}


@pytest.mark.parametrize("mark", [-1, MAX_MARK_MS + 1, 10**400])
def test_mark_that_does_not_fit_is_refused(mark: int) -> None:
    with pytest.raises(ValueError, match="a mark lies between"):
        encode_mark(mark)


@pytest.mark.parametrize("value", [b"", b"1", b"17900000000000000", b"-790000000000000", b"+790000000000000",
                                   b"\xff" * 16, b"1_90000000000000", b" 790000000000000"])  # fmt: skip
def test_value_that_is_no_mark_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="16 digits"):
        decode_mark(value)


@pytest.mark.parametrize(
    "tail",
    ["", "job", "job/", "job/1", "job//1", "/0000000000000001/1", "job/0000000000000001/x", "job/0000000000000001/",
     "job/1/1", "job/00000000000000001/1", "job/0000000000000001/01", "job/0000000000000001/1/2",
     "job/0000000000000001/\N{ARABIC-INDIC DIGIT ONE}",
     "job/0000000000000001/" + "1" * 5000, "job/0000000000000001/-1", "job/r-\udcff/1", "jo\udcff/r-1/1"],
)  # fmt: skip
def test_key_that_names_no_run_is_refused(tail: str) -> None:
    with pytest.raises(ValueError, match=r"run|digits"):
        KEYS.run_of(KEYS.runs + tail)


@pytest.mark.parametrize("text", ["", "job", "job@1", "job#1", "@1#1", "job@#1", "job@1#", "job@1#x",
                                  "job@1#\N{SUPERSCRIPT TWO}"])  # fmt: skip
def test_text_that_names_no_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a run id"):
        RunId.parse(text)


def test_other_digits_are_no_other_spelling_of_a_plan_time() -> None:
    run_id = KEYS.run_of(KEYS.runs + "job/000000000000000\N{ARABIC-INDIC DIGIT ONE}/1")
    assert run_id != RunId.planned("job", 1)
    assert run_id.plan_ms is None


def test_session_is_read_back_from_its_key() -> None:
    assert KEYS.session_of(KEYS.worker("w1", "1f")) == ("w1", "1f")
    for tail in ("w1", "w1/", "/1f", "w1/1f/2"):
        with pytest.raises(ValueError, match="does not name a session"):
            KEYS.session_of(KEYS.workers + tail)


def test_only_planned_runs_have_a_plan_time() -> None:
    assert RunId.planned("job", 17).plan_ms == 17
    assert RunId("job", "r-17").plan_ms is None
    assert RunId("job", "\N{ARABIC-INDIC DIGIT ONE}").plan_ms is None


def test_prefix_may_end_in_a_slash_or_not() -> None:
    assert Keys("/x/").job("j") == Keys("/x").job("j") == "/x/jobs/j"
    assert Keys("/x").seen(Watched.JOBS) == "/x/seen/jobs"


def test_a_run_of_a_workers_own_sequence_belongs_to_the_job() -> None:
    run = RunId.planned(sequence_name("job", "w-1.a"), 5)
    assert (run.job, run.job_name, run.of_worker) == ("job~w-1.a", "job", "w-1.a")
    assert RunId.parse(str(run)) == run
    keys = Keys()
    assert keys.run_of(keys.run(run)) == run
    assert keys.run(run).startswith(keys.own_runs_of("job"))
    assert not keys.run(run).startswith(keys.runs_of("job"))
    assert not keys.run(RunId.planned("job2~w", 5)).startswith(keys.own_runs_of("job"))
    plain = RunId.planned("job", 5)
    assert (plain.job_name, plain.of_worker) == ("job", None)
