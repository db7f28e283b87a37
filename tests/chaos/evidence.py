"""The command of every chaos job: writes when it started, that it lives, and when it ended.

Hundreds are started: it reads little of the standard library, and nothing else, or its start would be most of it.

    python -I -S evidence.py FILE SECONDS FAIL_BELOW [MANNER ...]

It exits with 1 in attempts below FAIL_BELOW. Each line is one append below 4 KiB. The manners:

    stubborn     ignores TERM
    mute         closes its standard streams
    loud, raw    prints 3 MB of lines; 1 MB of NUL and of what is no UTF-8, without any newline
    departs      leaves a daemon, in a session of its own, that lives for some time
    background   is nothing but a process that its run's shell has left behind: it writes signs of life alone
    lingers      likewise, but it writes one sign, and touches the place that is named behind it, which may hang
"""

from __future__ import annotations

import os
import sys
import time

LINE = (
    '{"mark": "%s", "run": "%s", "fence": %d, "worker": "%s", "pid": %d, "boot_ns": %d, "wall_ms": %d, '
    '"exit_code": %s, "printed": %s}'
)
_SIGN_OF_LIFE_S = 0.025
_DAEMON_LIVES_S = 20.0
_PIECES = 50
_PRINTED = {
    "loud": b"what a job has to say, again and again: 60 bytes to the line\n" * 1000,
    "raw": b"\0\xff\xfe\xc3" * 5000,
}


def main(path: str, seconds: str, fail_below: str, *manners: str) -> int:
    """Lives for so long, and says so."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    if "background" in manners:
        _live(file, float(seconds), "background")
        return 0
    if "lingers" in manners:
        _write(file, "lingers")
        try:  # noqa: SIM105 - contextlib is slow to read
            os.stat(manners[-1])
        except OSError:
            pass
        return 0
    exit_code = int(int(os.environ["ETCRON_ATTEMPT"]) < int(fail_below))
    _write(file, "start")
    if "stubborn" in manners:
        import signal  # only here, for it is slow to read

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "departs" in manners:
        _depart(file)
    if "mute" in manners:
        os.closerange(0, 3)
    printed = _print(file, manners)
    _live(file, float(seconds), "last")
    _write(file, "end", exit_code=exit_code, printed=printed)
    return exit_code


def _live(file: int, seconds: float, mark: str) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _SIGN_OF_LIFE_S))
        _write(file, mark)


def _print(file: int, manners: tuple[str, ...]) -> int:
    """How many bytes; its worker may take them slowly, so it shows that it lives."""
    printed = 0
    for manner in sorted(_PRINTED.keys() & set(manners)):
        for _ in range(_PIECES):
            left = _PRINTED[manner]
            while left:
                written = os.write(1, left)
                printed, left = printed + written, left[written:]
            _write(file, "last")
    return printed


def _depart(file: int) -> None:
    """As daemons do: a child of a child, in a session of its own, with none of the standard streams."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        _live(file, _DAEMON_LIVES_S, "departed")
    os._exit(0)


def _write(file: int, mark: str, *, exit_code: int | None = None, printed: int | None = None) -> None:
    of = (os.environ["ETCRON_RUN_ID"], int(os.environ["ETCRON_FENCE"]), os.environ["ETCRON_WORKER"], os.getpid())
    at = (time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns() // 1_000_000)
    numbers = ("null" if one is None else str(one) for one in (exit_code, printed))
    os.write(file, f"{LINE % (mark, *of, *at, *numbers)}\n".encode())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
