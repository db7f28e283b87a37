"""The machine's processes, looked at while others begin."""

from __future__ import annotations

import subprocess
import threading

from worker.machine.processes import all_processes


def test_process_that_begins_during_the_look_is_seen_and_a_thread_is_not() -> None:
    processes = all_processes()
    seen = {next(processes).pid}
    begun = threading.Event()
    thread = threading.Thread(target=begun.wait)
    with subprocess.Popen(["sleep", "300"]) as sleeping:
        thread.start()
        try:
            seen |= {process.pid for process in processes}
        finally:
            sleeping.kill()
            begun.set()
    thread.join()
    assert sleeping.pid in seen
    assert thread.native_id not in seen
