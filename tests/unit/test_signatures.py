"""What a manager's signature vouches for: one job in one cluster, as it was saved; one run; one kill."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.configuration.config import load_manager_config, load_worker_config
from common.errors import ConfigError
from common.jobs.reader import parse_job
from common.protocol.edits import Edit, Stored, plan_delete, plan_pause, plan_save, plan_sealing
from common.protocol.follow_ups import End, Facts, follow
from common.protocol.keys import Keys, RunId, encode_mark
from common.protocol.kill import Kill
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.saved_job import EditKind, JobVersion, SavedJob, Signed
from common.protocol.signatures import Seal, Trust
from common.signing.keys import KeyFileError, PublicKeys, Signer, make_pair, public_path
from common.verdicts import Verdict
from tests.support.stored import kv

KEYS = Keys()
SPEC = parse_job({"name": "j", "command": "echo caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cronExpr": "@hourly"})
NOW_MS = 1_790_000_000_000


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return make_pair(tmp_path_factory.mktemp("keys") / "key")


@pytest.fixture
def seal(signer: Signer) -> Seal:
    return seal_for(signer)


def seal_for(signer: Signer, cluster: str = "/etcron") -> Seal:
    return Seal(signer=signer, trust=Trust(cluster=cluster, keys=PublicKeys({}).with_own(signer)))


def signed(seal: Seal, **changes: Any) -> SavedJob:
    saved = SavedJob(spec=SPEC, anchor_ms=NOW_MS, saved_ms=NOW_MS, saved_by="me")
    return replace(saved, **changes).sealed(seal, NOW_MS)


def fault(value: bytes, seal: Seal, name: str = "j") -> str | None:
    return Signed.of(value).fault(seal.trust, name)


def stored(saved: SavedJob | None, mark_ms: int | None = NOW_MS) -> Stored:
    job = None if saved is None else kv(KEYS.job("j"), saved.to_json())
    return Stored.read("j", job, None if mark_ms is None else kv(KEYS.mark("j"), encode_mark(mark_ms)))


def result_of(edit: Edit | None) -> SavedJob:
    assert edit is not None
    assert edit.value is not None
    return SavedJob.from_json(edit.value, name="j")


def test_a_signed_job_is_read_back_and_believed_however_its_json_is_spelled(seal: Seal) -> None:
    job = signed(seal)
    assert SavedJob.from_json(job.to_json(), name="j") == job
    assert fault(job.to_json(), seal) is None
    assert fault(json.dumps(dict(reversed(json.loads(job.to_json()).items())), indent=1).encode(), seal) is None


def test_a_version_that_knows_no_signatures_reads_a_signed_job(seal: Seal) -> None:
    """It ignores what the job does not say that it must know."""
    document = json.loads(signed(seal).to_json())
    assert document["mustKnow"] == []
    assert "signature" not in document["mustKnow"]


def test_without_a_key_not_a_byte_is_other_than_before() -> None:
    job = SavedJob(spec=SPEC, anchor_ms=NOW_MS)
    assert b"signature" not in job.to_json()
    assert b"mustKnow" not in job.to_json()
    assert b"signature" not in Kill(run_id=RunId("j", "1"), by="me", at_ms=1).to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"command": "rm -rf /"}, {"anchorMs": NOW_MS - 1}, {"savedBy": "you"}, {"user": "root"}, {"mustKnow": ["x"]},
        {"newField": 1}, {"savedVersion": "0"}, {"pausedMs": 1}, {"enabled": False},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_attack_whatever_is_changed_in_a_signed_job_it_is_not_what_was_signed(
    seal: Seal, change: dict[str, object]
) -> None:
    document = json.loads(signed(seal).to_json()) | change
    assert fault(json.dumps(document).encode(), seal) is not None


def test_attack_a_signature_for_another_name_cluster_generation_or_kind_is_none(seal: Seal, signer: Signer) -> None:
    job = signed(seal)
    assert fault(job.to_json(), seal, "k") is not None
    assert fault(job.to_json(), seal_for(signer, "/other")) is not None
    assert job.signature is not None
    later = replace(job, signature=replace(job.signature, generation=NOW_MS + 1))
    assert fault(later.to_json(), seal) is not None
    kill = Kill(run_id=RunId("j", "1"), by="me", at_ms=NOW_MS, signature=job.signature)
    assert kill.fault(seal.trust) is not None


@pytest.mark.parametrize(
    "value", [None, "", 5, [], {}, {"key": "x", "generation": -1, "value": ""}, {"key": 1}, {"value": "\ud800"}]
)
def test_a_signature_that_is_none_counts_as_none(seal: Seal, value: object) -> None:
    document = json.loads(signed(seal).to_json()) | {"signature": value}
    text = json.dumps(document).encode()
    assert SavedJob.from_json(text, name="j").signature is None
    assert fault(text, seal) == "is not signed"


def test_a_signature_in_no_base64_is_a_fault(seal: Seal) -> None:
    for value in ("\N{SNOWMAN}", "=", "AAAA", "*"):
        document = json.loads(signed(seal).to_json())
        document["signature"]["value"] = value
        assert fault(json.dumps(document).encode(), seal) is not None


def test_each_save_is_a_generation_above_the_one_before_also_by_a_clock_that_is_behind(seal: Seal) -> None:
    first = signed(seal)
    spec = replace(SPEC, timeout_s=5.0)
    second = result_of(plan_save(KEYS, stored(first), spec, now_ms=NOW_MS - 200, by="me", seal=seal))
    assert second.signature is not None
    assert second.signature.generation == NOW_MS + 1
    gone = plan_delete(KEYS, stored(second), now_ms=NOW_MS - 150, by="me")
    assert gone is not None
    again = result_of(plan_save(KEYS, stored(None, gone.mark_ms), SPEC, now_ms=NOW_MS - 100, by="me", seal=seal))
    assert again.signature is not None
    assert again.signature.generation > second.signature.generation


def test_the_same_spec_is_saved_again_where_it_is_not_signed_yet(seal: Seal) -> None:
    unsigned = SavedJob(spec=SPEC, anchor_ms=NOW_MS)
    assert plan_save(KEYS, stored(unsigned), SPEC, now_ms=NOW_MS, by="me") is None
    after = result_of(plan_save(KEYS, stored(unsigned), SPEC, now_ms=NOW_MS, by="me", seal=seal))
    assert plan_save(KEYS, stored(after), SPEC, now_ms=NOW_MS, by="me", seal=seal) is None


def test_attack_a_pause_does_not_sign_what_somebody_put_into_etcd(seal: Seal) -> None:
    forged = SavedJob(spec=replace(SPEC, command="forged"), anchor_ms=NOW_MS)
    for before in (forged, replace(forged, signature=signed(seal).signature)):
        paused = result_of(plan_pause(KEYS, stored(before), reason=None, now_ms=NOW_MS, by="me", seal=seal))
        assert paused.signature is None
    paused = result_of(plan_pause(KEYS, stored(signed(seal)), reason=None, now_ms=NOW_MS, by="me", seal=seal))
    assert fault(paused.to_json(), seal) is None


def test_signing_what_is_there_changes_neither_the_job_nor_its_mark(seal: Seal) -> None:
    unsigned = SavedJob(spec=SPEC, anchor_ms=NOW_MS, saved_ms=NOW_MS, saved_by="me")
    edit = plan_sealing(KEYS, stored(unsigned), now_ms=NOW_MS + 9, seal=seal)
    after = result_of(edit)
    assert replace(after, signature=None) == unsigned
    assert fault(after.to_json(), seal) is None
    assert edit is not None
    assert [operation.key for operation in edit.txn.then] == [KEYS.job("j"), KEYS.seen_prefix + "jobs"]  # type: ignore[union-attr]


def test_a_former_spec_keeps_its_signature_in_etcd_and_in_the_log_store(seal: Seal) -> None:
    edit = plan_save(KEYS, stored(signed(seal)), replace(SPEC, timeout_s=5.0), now_ms=NOW_MS, by="me", seal=seal)
    assert edit is not None
    (value,) = [one.value for one in edit.txn.then if one.key.startswith(KEYS.versions)]  # type: ignore[union-attr]
    version = JobVersion.from_json(value, job="j", revision=1)
    assert version.fault(seal.trust) is None
    assert version.ended_with is EditKind.SAVE
    forged = JobVersion.from_json(value.replace(b"echo", b"rm"), job="j", revision=1)
    assert forged.fault(seal.trust) == "is not what was signed, or was signed for another cluster or under another name"
    elsewhere = JobVersion.from_json(value, job="k", revision=1)
    assert elsewhere.fault(seal.trust) is not None


def request(**changes: Any) -> Request:
    made = Request(
        run_id=RunId("j", "r-1-a"), origin=Origin.RUN_NOW, job_create_revision=5, plan_ms=NOW_MS, dispatch_ms=NOW_MS,
        not_before_ms=NOW_MS, args=("a",), env={"A": "1"}, scope="as it was",
    )  # fmt: skip
    return replace(made, **changes)


def test_a_grant_goes_along_with_every_attempt(seal: Seal) -> None:
    asked = request()
    grant = seal.run(asked.asked_run, not_before_ms=NOW_MS, expires_ms=NOW_MS + 1000)
    asked = replace(asked, grant=grant, expires_ms=NOW_MS + 1000)
    there = Request.from_json(asked.to_json(), run_id=asked.run_id)
    assert there == asked
    assert seal.trust.run_fault(there.asked_run, there.grant) is None
    entry = RunEntry.from_json(
        RunEntry(
            state=EntryState.OPEN,
            plan_ms=NOW_MS,
            revision=1,
            args=asked.args,
            env=asked.env,
            grant=grant,
            scope=asked.scope,
        ).to_json()
    )
    record = RunRecord(run_id=asked.run_id, status=Verdict.FAILED, end_ms=NOW_MS)
    end = End(entry=entry, record=record, frees_lock=False)
    job = kv(KEYS.job("j"), signed(seal).to_json(), 1, created=1)
    retry = parse_job({"name": "j", "command": "x", "cronExpr": "@hourly", "retry": {"limit": 1}})
    planned = PlannedJob.of(SavedJob(spec=retry, anchor_ms=0), job)
    after = follow(KEYS, end, Facts(job=planned)).request
    assert after is not None
    assert after.run_id.attempt == 2
    assert after.expires_ms == NOW_MS + 1000
    assert seal.trust.run_fault(after.asked_run, after.grant) is None


@pytest.mark.parametrize(
    "change",
    [
        {"args": ("b",)}, {"args": ()}, {"env": {"A": "1", "LD_PRELOAD": "x"}}, {"run_id": RunId("k", "r-1-a")},
        {"scope": None}, {"scope": "another"}, {"run_id": RunId("j", "r-1-b")}, {"run_id": RunId("j~w1", "r-1-a")},
    ],
)  # fmt: skip
def test_attack_a_grant_is_for_one_run_with_its_args_and_its_env(seal: Seal, change: dict[str, Any]) -> None:
    grant = seal.run(request().asked_run, not_before_ms=NOW_MS, expires_ms=NOW_MS + 1000)
    assert seal.trust.run_fault(request().asked_run, grant) is None
    assert seal.trust.run_fault(request(**change).asked_run, grant) is not None


def test_a_kill_is_read_back_and_is_for_one_run_by_one_person(seal: Seal) -> None:
    kill = Kill(run_id=RunId("j", "1"), by="me", at_ms=NOW_MS, reason="enough").sealed(seal)
    there = Kill.from_json(kill.to_json(), run_id=kill.run_id, revision=7)
    assert there.fault(seal.trust) is None
    for changed in (
        replace(there, run_id=RunId("j", "1", 2)), replace(there, by="you"), replace(there, at_ms=NOW_MS + 1),
        replace(there, reason=None), replace(there, signature=None),
    ):  # fmt: skip
        assert changed.fault(seal.trust) is not None


# Keys and configuration


def test_a_pair_of_keys_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    signer = make_pair(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Signer.load(path).key == signer.key
    assert PublicKeys.load([public_path(path)]).names == PublicKeys.load([tmp_path]).names == [signer.key]
    with pytest.raises(FileExistsError):
        make_pair(path)
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        Signer.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_that_holds_no_key_is_told_of_without_what_is_in_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    for load in (Signer.load, lambda path: PublicKeys.load([path])):
        with pytest.raises(KeyFileError) as refused:
            load(path)
        assert str(path) in str(refused.value)
        assert "AAAA" not in str(refused.value)


def test_the_private_key_in_place_of_the_public_one_is_refused(tmp_path: Path) -> None:
    make_pair(tmp_path / "key")
    with pytest.raises(KeyFileError):
        PublicKeys.load([tmp_path / "key"])


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ({"signing": "require"}, "signingKeys"), ({"signing": "maybe"}, "signing"),
        ({"signing": "warn", "signingKeys": ["missing.pub"]}, "signingKeys"),
    ],
)  # fmt: skip
def test_a_worker_that_could_believe_nothing_does_not_start(flags: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_worker_config(None, {}, flags)
    assert [problem.field for problem in refused.value.problems] == [field]


def test_a_manager_without_its_key_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_manager_config(None, {}, {"signingKeyFile": str(tmp_path / "missing")})
    assert [problem.field for problem in refused.value.problems] == ["signingKeyFile"]
    make_pair(tmp_path / "key")
    config = load_manager_config(None, {}, {"signingKeyFile": str(tmp_path / "key"), "clusterName": "prod"})
    assert config.signed_for == "prod"
