"""Job names that look like something else are names."""

from __future__ import annotations

import pytest

from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import RunFilter, RunLog
from common.verdicts import Verdict
from tests.support.records import last_results


@pytest.mark.parametrize("name", ["2024-01-01-backup", "12/31/2024", "007", "7", "null", "true", "1e5"])
async def test_job_whose_name_looks_like_a_value_is_found(runlog: RunLog, name: str) -> None:
    name = name.replace("/", "-")
    run_id = RunId.planned(name, 1_700_000_000_000)
    await runlog.write([RunRecord(run_id=run_id, status=Verdict.SUCCESS, plan_ms=1_700_000_000_000, start_ms=1)])
    assert list((await runlog.job_log(name)).sizes) == [str(run_id)]
    assert list(await runlog.find([run_id])) == [str(run_id)]
    assert (await runlog.runs(RunFilter(job=name))).items[0]["_id"] == str(run_id)
    assert (await last_results(runlog, [name]))[name]["runId"] == str(run_id)
