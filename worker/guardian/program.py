"""The guardian's process: waits for its lock, listens to its worker, and ends what is late or left. See the package."""

from __future__ import annotations

import fcntl
import logging
import os
import resource
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from common.clock import Clock
from worker.guardian.ends import Ends
from worker.guardian.group_leader import GroupLeader
from worker.guardian.guarded_runs import GuardedRun, GuardedRuns
from worker.guardian.messages import (
    Adopt,
    Confirmed,
    Ended,
    Ending,
    Group,
    Intent,
    Leapt,
    Lines,
    Message,
    Over,
    Past,
    Ping,
    Pong,
    Ready,
    decode_all,
    encode,
)
from worker.machine.left_groups import LeftGroups, read_left, write_left
from worker.machine.process_group import kernel_has_group_pidfds

_log = logging.getLogger(__name__)

TELL_FIRST_S: Final = 0.25
"""How long the worker has to end a run that is past its deadline, in words."""
_LOOK_S: Final = 0.25
_LEAP_S: Final = 1.0
"""Of the wall clock, from one look to the next: less is the mending of a clock that was off a little."""
_LOOK_FOR_INTENTS_S: Final = 0.1
_LOOK_AT_ENDS_S: Final = (0.005, 0.1)
"""After the first step, and at most: each look takes twice as long to come as the one before."""
_LOOK_AT_LOCK_S: Final = 0.02
_EXEC_WITHIN_S: Final = 0.5
"""A process that was being started when the worker ended shows its marks within this time, or never."""
_READ_SIZE: Final = 65_536
_GATHER_S: Final = 0.06
"""Then it listens again. Woken for each word by itself it would take the processor from its worker three times a run;
so it hears of most short runs when they are over, and looks at no process of theirs."""
_GATHER_LITTLE_S: Final = 0.02
"""The same where the machine gives this user's pipes so little room that the worker would have to wait for it."""
_LITTLE_ROOM: Final = 65_536


class Guardian:
    """Guards until its input closes, then ends everything that is open, and returns."""

    def __init__(self, *, directory: Path, instance: str, parent: int, in_fd: int, out_fd: int, clock: Clock) -> None:
        """``directory``: of the worker's data; ``parent``: its process id.

        ``in_fd``, ``out_fd``: descriptors of the pipes from and to it.
        """
        self._directory = directory
        self._instance = instance
        self._parent = parent
        self._in_fd = in_fd
        self._out_fd = out_fd
        self._clock = clock
        self._lines = Lines()
        self._guarded = GuardedRuns()
        self._leaders: dict[str, GroupLeader] = {}
        self._ends = Ends(instance)
        self._look_at = 0.0
        self._ahead_s = self._wall_ahead_s()
        os.set_blocking(out_fd, False)

    def run(self) -> None:
        """Returns once the worker has ended and nothing of its open runs is left, or can be ended."""
        self._tell(Ready())
        poll = select.poll()
        poll.register(self._in_fd, select.POLLIN)
        while True:
            if poll.poll(self._timeout_ms()):
                if not self._listen():
                    break
                # Asked each time: the worker widens the pipe once this process has begun.
                room = fcntl.fcntl(self._in_fd, fcntl.F_GETPIPE_SZ)
                time.sleep(_GATHER_S if room >= _LITTLE_ROOM else _GATHER_LITTLE_S)
            if (now := self._clock.boottime()) >= self._look_at:
                self._look(now)
        self._end_all()

    # While the worker lives

    def _timeout_ms(self) -> float | None:
        """Short enough for a machine that slept: poll's own clock did not count that."""
        if not self._ends.busy and not self._guarded.has_deadlines:
            return None
        return max(0.0, self._look_at - self._clock.boottime()) * 1000

    def _listen(self) -> bool:
        """Takes in what was sent; False: the worker has closed the pipe."""
        data = os.read(self._in_fd, _READ_SIZE)
        for message in decode_all(self._lines.take(data), _misheard):
            try:
                self._take(message)
            except ValueError as error:
                _misheard(error)
        return bool(data)

    def _take(self, message: Message) -> None:
        match message:
            case Intent():
                self._guarded.intend(message)
                self._look_at = min(self._look_at, self._clock.boottime() + _LOOK_FOR_INTENTS_S)
                if message.pid is not None:
                    self._on_group(Group(message.run, message.pid, message.began, message.reported))
            case Group():
                self._on_group(message)
            case Over(run=run):
                self._over(run)
            case Adopt():
                self._guarded.adopt(message)
            case Confirmed():
                self._guarded.confirm(message)
            case Ending(run=run):
                if (guarded := self._guarded.get(run)) is not None:
                    guarded.ended_by_worker = True
            case Ping(number=number):
                self._tell(Pong(number))
            case _:
                raise ValueError(f"not for a guardian: {message}")

    def _on_group(self, group: Group) -> None:
        run = group.run
        guarded = self._guarded.get(run)
        if guarded is None:
            raise ValueError(f"a process of {run}, of which no intent was sent")
        guarded.pid = group.pid
        leader = None
        try:
            leader = GroupLeader.of(
                run, group.pid, instance=self._instance, parent=self._parent, began=group.began,
                reported=group.reported, now=self._clock.boottime(),
            )  # fmt: skip
        except OSError as error:  # out of descriptors: it is found by its marks alone
            _log.warning("cannot look at the process of %s: %s", run, error, extra={"action": "guardian.blind"})
        if leader is not None:
            self._leaders[run] = leader
        self._ends.found_process(run, leader)

    def _over(self, run: str) -> None:
        self._guarded.over(run)
        self._ends.over(run)
        if (leader := self._leaders.pop(run, None)) is not None:
            leader.close()

    def _wall_ahead_s(self) -> float:
        return self._clock.wall_ms() / 1000 - self._clock.boottime()

    def _look(self, now: float) -> None:
        ahead_s = self._wall_ahead_s()
        if ahead_s - self._ahead_s >= _LEAP_S:
            extra = {"action": "guardian.leap", "by_s": round(ahead_s - self._ahead_s, 1)}
            _log.warning("the wall clock leapt ahead: what is not confirmed soon is ended", extra=extra)
            self._guarded.leapt(ahead_s - self._ahead_s, now)
            self._tell(Leapt())
        self._ahead_s = ahead_s
        for guarded in self._guarded.newly_past(now):
            extra = {"action": "guardian.past", "run": guarded.run, "started": guarded.pid is not None}
            _log.warning("%s is past its deadline", guarded.run, extra=extra)
            self._tell(Past(guarded.run))
        for guarded in self._guarded:
            if guarded.past_since is not None and guarded.run not in self._ends:
                self._end_if_due(guarded, now)
        if self._ends.busy:
            self._ends.look(now)
        hurried = self._ends.busy or self._guarded.has_intents
        self._look_at = min(now + (_LOOK_FOR_INTENTS_S if hurried else _LOOK_S), self._ends.next_kill_at(now))

    def _end_if_due(self, guarded: GuardedRun, now: float) -> None:
        assert guarded.past_since is not None
        if guarded.pid is None:
            # It was never to start: whatever comes is killed, and looked for until the worker says that nothing will.
            self._tell(Ended(guarded.run))
            self._ends.begin(guarded.run, None, kill_at=now, endless=True)
        elif now >= guarded.past_since + TELL_FIRST_S:
            self._tell(Ended(guarded.run))  # first: else its exit may be judged before this is read
            self._ends.begin(
                guarded.run, self._leaders.get(guarded.run), kill_at=guarded.past_since + guarded.grace_s,
                term=not guarded.ended_by_worker,
            )  # fmt: skip

    def _tell(self, message: Message) -> None:
        with suppress(OSError):  # it does not listen (now): what has to be done is done without it
            os.write(self._out_fd, encode(message))

    # When it has ended

    def _end_all(self) -> None:
        """The worker has ended: so does everything that was open in it."""
        began = self._clock.boottime()
        for guarded in self._guarded:
            self._ends.begin(
                guarded.run,
                self._leaders.get(guarded.run),
                kill_at=began + guarded.grace_s,
                endless=guarded.pid is None,
            )
        if len(self._guarded):
            extra = {"action": "guardian.alone", "runs": len(self._guarded)}
            _log.warning("the worker has ended: %d runs are ended", len(self._guarded), extra=extra)
        delay = _LOOK_AT_ENDS_S[0]
        while self._ends.busy:
            now = self._clock.boottime()
            if now >= began + _EXEC_WITHIN_S:
                self._ends.nothing_more_comes()
            self._ends.look(now)
            # A look takes its time on a busy machine: what fell due meanwhile is not to wait any longer.
            time.sleep(max(0.0, min(delay, self._ends.next_kill_at(now) - self._clock.boottime())))
            delay = min(delay * 2, _LOOK_AT_ENDS_S[1])
        self._write_down()

    def _write_down(self) -> None:
        """What could not be ended keeps its lock in the worker's next life, too."""
        if not (left := self._ends.left(self._clock.wall_ms())):
            return
        known = {group.run for group in left}
        try:
            there = read_left(self._directory)
            others = (group for group in there.groups if group.run not in known)
            write_left(self._directory, LeftGroups(groups=[*others, *left], recorded=there.recorded))
        except OSError as error:
            extra = {"action": "guardian.not_written"}
            _log.error("not written down which runs still have processes: %s", error, extra=extra)


def _misheard(error: ValueError) -> None:
    _log.error("%s", error, extra={"action": "guardian.misheard"})


def outlive_the_worker() -> None:
    """Nothing that ends the worker ends this process with it, as far as that is up to it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with suppress(OSError):  # needs CAP_SYS_RESOURCE
        Path("/proc/self/oom_score_adj").write_text("-900")
    with suppress(OSError):
        Path("/proc/self/comm").write_text("etcron-guardian")
    kernel_has_group_pidfds()  # asked now: when it is needed, there may be no descriptor to ask with


def hold(lock: Path) -> int:
    """The lock of the data directory's guardian, once the one before has ended what it had to; its descriptor.

    It is held until this process ends. One that was stopped and has lost its worker would keep it for ever, and what it
    was to end would go on: it is continued. OSError: the file cannot be opened.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            _continue_holder(lock, descriptor)
        time.sleep(_LOOK_AT_LOCK_S)
    with suppress(OSError):  # on a full disk the lock holds all the same, and names no process
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _continue_holder(lock: Path, descriptor: int) -> None:
    """To one that runs this says nothing. What the file says may be old: only a guardian of this lock is meant."""
    with suppress(OSError, ValueError):
        pid = int(os.pread(descriptor, 32, 0))
        if os.fsencode(lock) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            os.kill(pid, signal.SIGCONT)
