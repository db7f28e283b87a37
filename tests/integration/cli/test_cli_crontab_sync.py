"""`etcron crontab sync` against a real manager: a crontab and its jobs are kept alike, and change hands."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.client import Client
from cli.crontab.sources import Source
from cli.crontab.takeover import Line, Takeover, compare_workers_clocks
from cli.errors import CommandError, ExitStatus
from cli.manifests.carrying import make_plan
from common.clock import SystemClock
from common.crontab.daemons import Daemon, Kind
from common.crontab.lines import TAKEN
from common.jobs.reader import parse_job
from common.protocol.keys import RunId
from common.protocol.member import Beat, RunsAs
from common.schedules.schedule import dispatch_ms
from common.verdicts import Verdict
from tests.integration.cli.conftest import Etcron
from tests.support.clocks import OffClock
from tests.support.joining import join
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import record_of

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

Write = Callable[[str, str], str]

HOUR_MS = 3_600_000
BACKUP, REPORT = "30 2 * * * /opt/backup --full", "0 7 * * 1-5 /opt/report"
CRONTAB = f"""\
# Nightly backup
{BACKUP}
# Report for the team
{REPORT}
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies and notes are kept; and it is always well between two minutes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("cli.crontab.takeover.wait_between_minutes", lambda **_: None)
    return tmp_path / "state" / "etcron" / "crontabs"


async def states(etcron: Etcron) -> dict[str, str]:
    return {row["name"]: row["state"] for row in (await etcron.ok("job", "list", "-o", "json")).json}


async def spec(etcron: Etcron, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await etcron.ok("job", "show", name, "-o", "json")).json["spec"]
    return found


async def ran(manager: Managed, *jobs: str, status: Verdict = Verdict.SUCCESS) -> None:
    """Each has run by hand, just now."""
    at_ms = manager.parts.clock.wall_ms() + 1000
    await manager.write([record_of(RunId.planned(job, at_ms), status) for job in jobs])


def sync(path: str, *more: str) -> tuple[str, ...]:
    return ("crontab", "sync", path, "--live", "--tz", "UTC", *more)


async def test_lines_and_jobs_are_kept_alike(etcron: Etcron, write: Write) -> None:
    path = write("tab", CRONTAB)
    first = await etcron.ok(*sync(path))
    assert f"cron runs it; as {getpass.getuser()}" in first.out
    assert await states(etcron) == {"nightly-backup": "paused", "report-for-the-team": "paused"}
    saved = await spec(etcron, "nightly-backup")
    assert (saved["description"], saved["user"], saved["overlap"]) == ("Nightly backup", getpass.getuser(), "allow")
    assert "2 jobs (2 unchanged)" in (await etcron.ok(*sync(path))).out
    write(
        "tab", CRONTAB.replace("30 2", "45 3").replace("Report for the team", "Weekday report") + "@hourly /opt/poll\n"
    )
    dry = await etcron.ok(*sync(path, "--dry-run"))
    assert "job report-for-the-team (unchanged" in dry.out, "its comment names it no more, its command does"
    changed = await etcron.ok(*sync(path))
    assert "3 jobs (1 changed, 1 created, 1 unchanged)" in changed.out
    assert (await spec(etcron, "nightly-backup"))["cronExpr"] == "0 45 3 * * * *"
    write("tab", "# Nightly backup\n45 3 * * * /opt/backup --full --quiet\n")
    await etcron.ok(*sync(path))
    assert (await spec(etcron, "nightly-backup"))["command"] == "/opt/backup --full --quiet"
    assert len(await states(etcron)) == 3, "whose lines are gone are paused, not deleted"


async def test_a_changed_command_without_a_comment_stays_the_same_job(etcron: Etcron, write: Write) -> None:
    path = write("tab", f"{BACKUP}\n{REPORT}\n")
    await etcron.ok(*sync(path))
    before = await states(etcron)
    write("tab", f"{REPORT} --mail\n{BACKUP.replace('/opt/', '/usr/local/')}\n")
    await etcron.ok(*sync(path))
    assert await states(etcron) == before


async def test_never_do_both_run_a_line(etcron: Etcron, write: Write) -> None:
    path = write("tab", CRONTAB)
    await etcron.ok(*sync(path))
    await etcron.ok("job", "resume", "nightly-backup")
    await etcron.ok(*sync(path))
    assert (await states(etcron))["nightly-backup"] == "paused", "cron runs its line"
    paused = (await etcron.ok("job", "show", "nightly-backup", "-o", "json")).json["paused"]
    assert paused["reason"] == "cron runs its line of the crontab"


async def test_never_do_both_run_a_line_whose_job_was_there_before_its_first_sync(etcron: Etcron, write: Write) -> None:
    await etcron.ok("job", "save", "nightly-backup", "--command", "/opt/backup --full", "--cron", "@daily")
    await etcron.ok(*sync(write("tab", CRONTAB)))
    assert (await states(etcron))["nightly-backup"] == "paused"


async def test_takes_over_what_ran_well_by_hand_and_gives_it_back(
    etcron: Etcron, manager: Managed, write: Write, state: Path
) -> None:
    path = write("tab", CRONTAB)
    refused = await etcron(*sync(path, "--takeover"))
    assert refused.status == 1
    names = "nightly-backup, report-for-the-team"
    assert f"{names}: with cron still: it has not run as it is now: etcron job run NAME --wait" in refused.err
    assert Path(path).read_text() == CRONTAB
    await ran(manager, "nightly-backup")
    await ran(manager, "report-for-the-team", status=Verdict.FAILED)
    half = await etcron(*sync(path, "--takeover"))
    assert "report-for-the-team: with cron still: its last run is failed" in half.err
    assert Path(path).read_text() == CRONTAB.replace(BACKUP, TAKEN + BACKUP)
    assert await states(etcron) == {"nightly-backup": "enabled", "report-for-the-team": "paused"}
    assert [copy.read_text() for copy in state.iterdir()] == [CRONTAB]
    assert "etcron runs it; as" in (await etcron.ok(*sync(path))).out
    assert (await states(etcron))["nightly-backup"] == "enabled"
    await etcron.ok(*sync(path, "--give-back"))
    assert Path(path).read_text() == CRONTAB
    assert await states(etcron) == {"nightly-backup": "paused", "report-for-the-team": "paused"}


def _plan_while_somebody_saves_a_job_of_that_name(*arguments: Any, **options: Any) -> Any:
    steps = make_plan(*arguments, **options)
    assert main(["job", "save", "nightly-backup", "--command", "mine", "--cron", "@daily", "--paused"]) == 0
    return steps


async def test_a_takeover_without_a_home_directory_says_what_to_set(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("tab", CRONTAB)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "~")  # as a unit may have it, which no shell reads
    result = await etcron(*sync(path, "--takeover", "--untested"))
    assert (result.status, "set HOME or XDG_STATE_HOME" in result.err) == (ExitStatus.REFUSED, True)
    assert Path(path).read_text() == CRONTAB


async def test_a_line_whose_job_could_not_be_saved_stays_with_cron(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("tab", CRONTAB)
    with monkeypatch.context() as patch:
        patch.setattr("cli.crontab.sync.make_plan", _plan_while_somebody_saves_a_job_of_that_name)
        result = await etcron(*sync(path, "--takeover", "--untested"))
    assert (result.status, "nightly-backup: with cron still: its job could not be saved" in result.err) == (1, True)
    assert Path(path).read_text() == CRONTAB.replace(REPORT, TAKEN + REPORT)
    assert (await spec(etcron, "nightly-backup"))["command"] == "mine"


@pytest.mark.parametrize("dies", ["at the crontab", "behind it"])
async def test_a_takeover_that_dies_half_way_leaves_neither_running_it_and_goes_on(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    path = write("tab", CRONTAB)
    await etcron.ok(*sync(path))
    with monkeypatch.context() as patch:
        where = "Source.replace" if dies == "at the crontab" else "Takeover._switch"
        module = "sources" if dies == "at the crontab" else "takeover"

        def die(*_: Any) -> None:
            raise CommandError("killed", ExitStatus.UNAVAILABLE)

        patch.setattr(f"cli.crontab.{module}.{where}", die)
        died = await etcron(*sync(path, "--takeover", "--untested"))
    assert died.status == ExitStatus.UNAVAILABLE
    idle = "neither runs them: nightly-backup, report-for-the-team; run the same command again"
    assert (idle in died.err) is (dies == "behind it")
    taken = Path(path).read_text().count(TAKEN)
    assert taken == (0 if dies == "at the crontab" else 2)
    assert set((await states(etcron)).values()) == {"paused"}
    if taken:
        assert "neither runs it" in (await etcron.ok(*sync(path))).out
    await etcron.ok(*sync(path, "--takeover", "--untested"))
    assert Path(path).read_text().count(TAKEN) == 2
    assert set((await states(etcron)).values()) == {"enabled"}


async def test_a_job_that_could_not_be_saved_is_not_resumed_by_the_takeover_that_goes_on(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored under its name is not what its line says."""
    path = write("tab", CRONTAB)

    def die(*_: Any) -> None:
        raise CommandError("killed", ExitStatus.UNAVAILABLE)

    with monkeypatch.context() as patch:
        patch.setattr("cli.crontab.takeover.Takeover._switch", die)
        await etcron(*sync(path, "--takeover", "--untested"))
    await etcron.ok("job", "delete", "nightly-backup")
    with monkeypatch.context() as patch:
        patch.setattr("cli.crontab.sync.make_plan", _plan_while_somebody_saves_a_job_of_that_name)
        result = await etcron(*sync(path, "--takeover", "--untested"))
    told = "nightly-backup: out of the crontab, and its job could not be saved: neither runs it"
    assert (result.status, told in result.err) == (ExitStatus.NO, True)
    assert await states(etcron) == {"nightly-backup": "paused", "report-for-the-team": "enabled"}

    await etcron.ok("job", "pause", "report-for-the-team")
    await etcron.ok("job", "delete", "nightly-backup")
    await etcron(*sync(path, "--takeover", "--untested"))
    assert await states(etcron) == {"nightly-backup": "enabled", "report-for-the-team": "paused"}


async def test_a_job_that_somebody_paused_after_its_takeover_stays_paused(etcron: Etcron, write: Write) -> None:
    path = write("tab", CRONTAB)
    await etcron.ok(*sync(path, "--takeover", "--untested"))
    await etcron.ok("job", "pause", "nightly-backup", "--reason", "not now")
    await etcron.ok(*sync(path, "--takeover", "--untested"))
    assert (await states(etcron))["nightly-backup"] == "paused"


async def test_a_line_out_of_the_crontab_whose_job_is_new_is_told_of_once(etcron: Etcron, write: Write) -> None:
    path = write("tab", f"# Nightly backup\n{TAKEN}{BACKUP}\n")
    told = await etcron(*sync(path))
    assert told.status == ExitStatus.NO
    assert "line 2 is out of the crontab, and its job is paused: neither runs it" in told.err
    assert "etcron job resume nightly-backup" in told.err
    await etcron.ok(*sync(path))


async def test_a_crontab_that_changes_meanwhile_is_not_overwritten(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("tab", CRONTAB)
    await etcron.ok(*sync(path))
    edited = f"{CRONTAB}@daily /opt/new\n"
    monkeypatch.setattr("cli.crontab.takeover.wait_between_minutes", lambda: Path(path).write_text(edited))
    result = await etcron(*sync(path, "--takeover", "--untested"))
    assert (result.status, "was changed meanwhile" in result.err) == (4, True)
    assert Path(path).read_text() == edited
    assert set((await states(etcron)).values()) == {"paused"}


async def test_a_crontab_that_changes_after_the_pauses_of_a_give_back_is_told_with_the_jobs_that_nobody_runs(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, looks = write("tab", CRONTAB), list[None]()
    await etcron.ok(*sync(path, "--takeover", "--untested"))
    edited = f"{Path(path).read_text()}# edited\n"

    def look_at_the_clock(**_: float) -> None:
        looks.append(None)
        if len(looks) == 2:
            Path(path).write_text(edited)

    with monkeypatch.context() as patch:
        patch.setattr("cli.crontab.takeover.wait_between_minutes", look_at_the_clock)
        result = await etcron(*sync(path, "--give-back"))
    assert (result.status, "was changed meanwhile" in result.err) == (4, True)
    assert "neither runs them: nightly-backup, report-for-the-team; run the same command again" in result.err
    assert (Path(path).read_text(), set((await states(etcron)).values())) == (edited, {"paused"})
    await etcron.ok(*sync(path, "--give-back"))
    assert Path(path).read_text() == f"{CRONTAB}# edited\n"


@pytest.mark.parametrize(
    ("status", "idle"),
    [(ExitStatus.UNAVAILABLE, "neither runs them: nightly-backup; run"), (ExitStatus.NOT_ALLOWED, "")],
    ids=["no answer", "refused"],
)
async def test_a_job_whose_pause_had_no_answer_is_told_as_one_that_may_be_run_by_nobody(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch, status: ExitStatus, idle: str
) -> None:
    path = write("tab", CRONTAB)
    await etcron.ok(*sync(path, "--takeover", "--untested"))
    taken = Path(path).read_text()

    def fail(*_: Any) -> None:
        raise CommandError("no", status)

    with monkeypatch.context() as patch:
        patch.setattr("cli.crontab.takeover.Takeover._switch", fail)
        result = await etcron(*sync(path, "--give-back"))
    assert (result.status, "neither runs them" in result.err) == (status, bool(idle))
    assert idle in result.err
    assert Path(path).read_text() == taken


async def test_a_job_that_is_not_resumed_stops_no_other_and_is_named(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("tab", CRONTAB)
    delete = ("job", "delete", "nightly-backup")
    monkeypatch.setattr("cli.crontab.takeover.wait_between_minutes", lambda: main(delete))
    result = await etcron(*sync(path, "--takeover", "--untested"))
    assert "report-for-the-team: run by etcron from now on" in result.out
    assert (result.status, "neither runs them: nightly-backup; run the same" in result.err) == (3, True)
    assert await states(etcron) == {"report-for-the-team": "enabled"}


async def test_a_manager_whose_clock_is_off_takes_nothing_over(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("tab", CRONTAB)
    monkeypatch.setattr("cli.crontab.takeover._CLOCKS_DIFFER_S", -1.0)
    result = await etcron(*sync(path, "--takeover", "--untested"))
    assert (result.status, "clock and this machine's differ by" in result.err) == (4, True)
    assert Path(path).read_text() == CRONTAB


DEBIAN = Daemon(kind=Kind.DEBIAN, version="3.0pl1-162")
CRONIE = Daemon(kind=Kind.CRONIE, version="1.7.2")
DELAYED = f"RANDOM_DELAY=50\n# Nightly\n0 * * * * /opt/backup\nRANDOM_DELAY=0\n{REPORT}\n"


class _Moved(OffClock):
    """All its clocks are moved."""

    def monotonic(self) -> float:
        return super().monotonic() + self.offset_ms / 1000

    def move_to(self, ms: int) -> None:
        self.offset_ms += ms - self.wall_ms()


def _delayed_fire() -> tuple[int, int]:
    """The next fire of the job `nightly` that starts 12 to 30 minutes late, and when it starts."""
    spec = parse_job({"name": "nightly", "command": "x", "cronExpr": "@hourly", "timezone": "UTC"})
    plan_ms = SystemClock().wall_ms() // HOUR_MS * HOUR_MS + HOUR_MS
    while not 720_000 <= (at_ms := dispatch_ms("nightly", spec.schedule, 3000, plan_ms)) - plan_ms <= 1_800_000:
        plan_ms += HOUR_MS
    return plan_ms, at_ms


@pytest.mark.parametrize(
    ("daemon", "after_its_time_s", "after_its_start_s", "stays"),
    [(DEBIAN, 0, 5, ""), (DEBIAN, 631, 0, "nightly"), (CRONIE, 0, 606, "nightly"), (CRONIE, 3001, 0, "")],
    ids=["its delay is over", "it takes too long", "with cronie", "with cronie, its longest delay is over"],
)
async def test_a_line_is_given_back_once_the_random_delay_of_its_fire_is_over(
    place: Place, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], daemon: Daemon,
    after_its_time_s: int, after_its_start_s: int, stays: str,
) -> None:  # fmt: skip
    path, clock, waited = Path(write("tab", DELAYED)), _Moved(), list[str]()
    plan_ms, at_ms = _delayed_fire()
    async with managing(place, clock=clock) as manager:
        server = str(manager.http.make_url("/"))
        await Etcron(server=server, monkeypatch=monkeypatch).ok(*sync(str(path), "--takeover", "--untested"))
        (report,) = [row["name"] for row in (await manager.get("/api/v1/jobs"))["items"] if row["name"] != "nightly"]
        clock.move_to(plan_ms + 30_000 if daemon is DEBIAN else at_ms + 5_000)

        def sleep(_: float) -> None:
            waited.append(path.read_text())
            clock.move_to(at_ms + after_its_start_s * 1000 if after_its_start_s else plan_ms + after_its_time_s * 1000)

        def give_back() -> dict[str, str]:
            with Client([server]) as client:
                source = Source(path=path, user=getpass.getuser(), is_live=True)
                takeover = Takeover(client, source, path.read_text(), daemon=daemon, clock=clock, sleep=sleep)
                lines = [Line(number=number, job=job, is_taken=True) for number, job in ((3, "nightly"), (5, report))]
                return takeover.give_back(lines)

        left = await asyncio.to_thread(give_back)
        states = {row["name"]: row["state"] for row in (await manager.get("/api/v1/jobs"))["items"]}
    said = capsys.readouterr().err
    assert [text.count(TAKEN) for text in waited] == [1], "the other line came back at once"
    assert "nightly: waiting: " in said
    assert (list(left), path.read_text().count(TAKEN)) == ([stays] if stays else [], 1 if stays else 0)
    assert states == {"nightly": "enabled" if stays else "paused", report: "paused"}
    # No worker was there to start it in time: what runs by neither is said.
    assert ("nightly: skips " in said, "started: neither runs it" in said) == (not stays, not stays)


class _Workers:
    """A client whose workers beat each second, with clocks that are so far off; and the clock that sleeps move."""

    def __init__(self, **off_ms: int | None) -> None:
        self._off_ms = off_ms
        self.now = 1_000.0

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/workers"
        beat_ms = int(self.now) * 1000
        items = [
            {"name": name, "session": "1", "beat": None if off is None else {"wallMs": beat_ms + off}}
            for name, off in self._off_ms.items()
        ]
        return {"items": [*items, {"name": "gone", "session": None, "beat": {"wallMs": 1}}]}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


def _compare(workers: _Workers) -> None:
    compare_workers_clocks(workers, clock=workers, sleep=workers.sleep)  # type: ignore[arg-type]


def test_a_worker_whose_clock_is_off_takes_nothing_over() -> None:
    _compare(_Workers(a=0, b=1_500, c=-1_500))
    for off_ms, said in ((30_000, "30 s ahead of"), (-5_000, "5 s behind"), (None, "w does not tell its time")):
        with pytest.raises(CommandError, match=f"{said}.*both cron and etcron could run a line, or neither") as caught:
            _compare(_Workers(a=0, w=off_ms))
        assert caught.value.status == ExitStatus.CONFLICT


async def test_a_link_stays_one_and_what_it_leads_to_is_changed(etcron: Etcron, write: Write, tmp_path: Path) -> None:
    target, link = write("elsewhere/tab", CRONTAB), tmp_path / "link"
    link.symlink_to(target)
    await etcron.ok(*sync(str(link), "--takeover", "--untested"))
    assert link.is_symlink()
    assert Path(target).read_text().count(TAKEN) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes where others decide")
async def test_root_writes_nothing_where_another_user_decides(
    etcron: Etcron, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, link, home = write("theirs/tab", CRONTAB), tmp_path / "link", tmp_path / "home"
    link.symlink_to(target)
    os.chown(tmp_path / "theirs", 1, 1)
    result = await etcron(*sync(str(link), "--takeover", "--untested"))
    assert (result.status, "is not root's alone (of daemon)" in result.err) == (5, True)
    assert Path(target).read_text() == CRONTAB
    home.mkdir()
    os.chown(home, 1, 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    other = write("tab", "0 4 * * * /opt/other\n")
    result = await etcron(*sync(other, "--takeover", "--untested"))
    assert (result.status, "sudo -H" in result.err) == (5, True)
    (tmp_path / "way").symlink_to(home)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "way"))
    assert (await etcron(*sync(other, "--takeover", "--untested"))).status == 5
    assert list(home.rglob("*.unfinished")) == []


async def test_users_that_no_worker_allows_are_told_before_anything_is_saved(
    etcron: Etcron, manager: Managed, write: Write
) -> None:
    path = write("tab", "0 1 * * * daemon /opt/a\n0 2 * * * bin /opt/b\n")
    await join(
        manager, "w1", beat=Beat(kind="worker", wall_ms=1), runs_as=RunsAs(uid=0, default="nobody", allowed=("daemon",))
    )
    result = await etcron(*sync(path, "--system"))
    assert result.status == 1
    assert "no live worker runs commands as bin: add bin to allowedUsers" in result.out
    assert [name.rpartition("-")[0] for name in await states(etcron)] == ["a"]


async def test_the_job_of_a_taken_line_that_no_worker_may_run_goes_on_and_can_be_given_back(
    etcron: Etcron, manager: Managed, write: Write
) -> None:
    crontab = "# Dump\n0 2 * * * bin /opt/dump\n"
    path = write("tab", crontab)
    await etcron.ok(*sync(path, "--system", "--takeover", "--untested"))
    await join(
        manager, "w1", beat=Beat(kind="worker", wall_ms=1), runs_as=RunsAs(uid=0, default="nobody", allowed=("daemon",))
    )
    refused = await etcron(*sync(path, "--system"))
    assert (refused.status, "no live worker runs commands as bin" in refused.out) == (1, True)
    assert await states(etcron) == {"dump": "enabled"}
    await etcron(*sync(path, "--system", "--give-back"))
    assert Path(path).read_text() == crontab
    assert await states(etcron) == {"dump": "paused"}
    await etcron.ok("job", "resume", "dump")
    await etcron(*sync(path, "--system"))
    assert await states(etcron) == {"dump": "paused"}, "cron runs its line, whatever etcron would do with it"


async def test_no_job_counts_as_gone_while_a_taken_line_cannot_be_read(etcron: Etcron, write: Write) -> None:
    path = write("tab", "# Dump\n0 2 * * * daemon /opt/dump\n# Own\n0 3 * * * bin /opt/own\n")
    await etcron.ok(*sync(path, "--system", "--takeover", "--untested"))
    for how in ("other format", "a field is missing"):
        if how == "a field is missing":
            write("tab", Path(path).read_text().replace("0 2 * * *", "0 2 * *").replace("0 3 * * *", "0 3 * *"))
        told = await etcron(*sync(path, *(["--system"] if how == "a field is missing" else [])))
        assert (told.status, "etcron runs line 2, which is refused" in told.err) == (1, True), told
        assert await states(etcron) == {"dump": "enabled", "own": "enabled"}, how


async def test_a_user_where_the_command_should_be_is_a_crontab_of_the_other_format(
    etcron: Etcron, write: Write
) -> None:
    result = await etcron(*sync(write("tab", "0 1 * * * daemon /opt/a\n")))
    assert "daemon is a user of this machine" in result.out
    assert "use --system" in result.out
    assert await states(etcron) == {}
    # Debian has a user for the program `sync`, as for `mail` and `man`.
    assert "1 job (1 created)" in (await etcron.ok(*sync(write("tab", "0 1 * * * sync && /opt/a\n")))).out


@pytest.mark.skipif(os.geteuid() != 0, reason="a crontab of the system is root's")
async def test_what_debians_cron_does_not_run_is_said_before_a_takeover_and_after_it_is_given_back(
    etcron: Etcron, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chmod(write("bin/dpkg-query", "#!/bin/sh\nprintf 'installed 3.0pl1'\n"), 0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    path = write("tab", "# Last\n0 1 L * * root /opt/a\n# Good\n0 2 * * * root /opt/b\n")
    os.chmod(path, 0o644)
    first = await etcron.ok(*sync(path, "--system"))
    assert f"{path}: Debian's cron (3.0pl1) runs nothing of it: " in first.out
    assert "it cannot read line 2, and begins to run the others" in first.out
    assert "cannot read the day of the month L: until now it never ran; with etcron it will" in first.out
    assert "lines 2-4: neither runs it; as root" in first.out
    took = await etcron.ok(*sync(path, "--system", "--takeover", "--untested"))
    assert "good, last: run by etcron from now on" in took.out
    assert "cron, which ran nothing of it, runs what is left in it from now on" in took.out
    assert "runs nothing of it" not in (await etcron.ok(*sync(path, "--system"))).out, "nothing of it is cron's now"
    gave = await etcron.ok(*sync(path, "--system", "--give-back"))
    assert f"good, last: back in the crontab, and not run by cron: {path}: Debian's cron (3.0pl1)" in gave.out


async def test_a_strangers_job_of_the_same_name_is_left_alone(etcron: Etcron, write: Write) -> None:
    await etcron.ok("job", "save", "nightly-backup", "--command", "mine", "--cron", "@daily")
    result = await etcron(*sync(write("tab", CRONTAB)))
    assert (result.status, "that are not of this crontab: nightly-backup" in result.err) == (4, True)
    assert await states(etcron) == {"nightly-backup": "enabled"}


@pytest.mark.parametrize(
    ("user", "of"),
    [
        pytest.param(None, "daemon", id="the worker's user"),
        pytest.param("backup", "daemon", id="another user"),
        pytest.param("backup", None, id="another user, and one's own crontab"),
    ],
)
async def test_attack_a_crontab_gives_somebody_elses_job_of_the_same_command_to_its_user(
    etcron: Etcron, write: Write, user: str | None, of: str | None
) -> None:
    saved = ("job", "save", "nightly-backup", "--command", "/opt/backup --full", "--cron", "@daily")
    await etcron.ok(*saved, *(("--set", f"user={user}") if user else ()))
    result = await etcron(*sync(write("tab", CRONTAB), *(("--user", of) if of else ())))
    assert (result.status, "that are not of this crontab: nightly-backup" in result.err) == (4, True)
    found = await spec(etcron, "nightly-backup")
    assert (found["user"], found["labels"], found["enabled"]) == (user, {}, True)


async def test_a_file_that_cron_does_not_run_cannot_be_taken_over(etcron: Etcron, write: Write) -> None:
    result = await etcron("crontab", "sync", write("tab", CRONTAB), "--takeover")
    assert (result.status, "--live says that it does" in result.err) == (2, True)


async def test_the_users_own_crontab_is_read_and_written_by_its_program(
    etcron: Etcron, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of that name which keeps the table in a file, as Debian's does in its spool."""
    program = write(
        "bin/crontab", '#!/bin/sh\n[ "$1" = -l ] && exec cat "$TABLE"\n[ "$1" = - ] && exec cat > "$TABLE"\nexit 9\n'
    )
    os.chmod(program, 0o755)
    table = tmp_path / "table"
    table.write_text(CRONTAB)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TABLE", str(table))
    await etcron.ok("crontab", "sync", "--takeover", "--untested", "--tz", "UTC")
    assert table.read_text().count(TAKEN) == 2
    await etcron.ok("crontab", "sync", "--give-back", "--tz", "UTC")
    assert table.read_text() == CRONTAB
