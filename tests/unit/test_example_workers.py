"""examples/job_api/workers.sh, with processes in place of workers that count the signals they get."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

SCRIPT = Path(__file__).parents[2] / "examples/job_api/workers.sh"
WORKER = """
import os, signal, sys
done = os.open(os.environ["DONE"], os.O_RDONLY | os.O_NONBLOCK)  # a pipe whose end is the worker's
name = sys.argv[sys.argv.index("--worker-name") + 1]
seen = os.open(os.path.join(os.environ["SEEN"], name), os.O_WRONLY | os.O_CREAT)
for number in (signal.SIGINT, signal.SIGTERM):  # without a buffer: a signal may come in the middle of a write
    signal.signal(number, lambda number, _: os.write(seen, f"{signal.Signals(number).name}\\n".encode()))
os.write(seen, b"up\\n")
os.set_blocking(done, True)
os.read(done, 1)
"""


def test_where_etcron_does_not_run_it_says_what_to_start(tmp_path: Path) -> None:
    done = subprocess.run([SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "./data/config/worker-1.json cannot be read: start etcron first (make run)" in done.stderr


@pytest.mark.parametrize("by_hand", [True, False])
async def test_each_worker_is_asked_to_stop_once(tmp_path: Path, by_hand: bool) -> None:
    worker, done, seen = tmp_path / "etcron", tmp_path / "done", tmp_path / "seen"
    worker.write_text(f"#!{sys.executable}\n{WORKER}")
    worker.chmod(0o755)
    os.mkfifo(done)
    seen.mkdir()
    config = tmp_path / "worker-1.json"
    config.write_text("{}")
    environ = {**os.environ, "ETCRON": str(worker), "CONFIG": str(config), "DONE": str(done), "SEEN": str(seen)}

    def told() -> list[list[str]]:
        return [path.read_text().split() for path in seen.iterdir()]

    with done.open("r+b", buffering=0) as ending:
        script = subprocess.Popen([SCRIPT, "2"], env=environ, start_new_session=True)
        try:
            await wait_until(lambda: told() == [["up"], ["up"]], description="both workers run")
            if by_hand:  # Ctrl-C: the terminal asks them all
                os.killpg(script.pid, signal.SIGINT)
            else:
                script.terminate()
            expected = ["up", "SIGINT" if by_hand else "SIGTERM"]
            await wait_until(lambda: all(len(one) > 1 for one in told()), description="both were asked to stop")
            ending.write(b"..")
            assert script.wait(timeout=60) == 0
        finally:
            script.kill()
            script.wait()
    assert told() == [expected, expected]
