"""A program of its own, which the worker starts as root: it becomes another user, and then the command of a run.

    python -I -S another_user.py HANDED TOLD

Both are descriptors. HANDED holds what ``becoming`` has written; TOLD takes ``<step> <errno> <text>`` of a step
that failed, and is closed by the exec where none did. It imports as little as it can, for every import is paid for at
each start, and nothing later on: the user may not be able to read the worker's Python.
"""

import marshal
import os
import sys

# The module `signal` takes as long as all the rest.
from _signal import SIG_DFL, SIGPIPE, SIGXFSZ, signal  # type: ignore[import-not-found]

FAILED = 127


def main() -> None:
    """Never returns."""
    handed, told = map(int, sys.argv[1:])
    os.set_inheritable(told, False)
    step = "user"
    try:
        with open(handed, "rb") as file:
            uid, gid, groups, directory, candidates, arguments, environment = marshal.load(file)
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        step = "directory"
        os.chdir(directory)
        step = "command"
        for number in (SIGPIPE, SIGXFSZ):  # Python ignores them, and what is ignored stays so over the exec
            signal(number, SIG_DFL)
        execute(candidates, arguments, environment)
    except Exception as error:
        number = getattr(error, "errno", None) or 0
        os.write(told, f"{step} {number} {error}"[:1000].encode(errors="replace"))
    os._exit(FAILED)


def execute(candidates: list[bytes], arguments: list[bytes], environment: dict[bytes, bytes]) -> None:
    """As execvp(3) does it: the first that can be; else the first error that is not just an absence."""
    first = None
    last = OSError("no candidates")
    for program in candidates:
        try:
            os.execve(program, arguments, environment)
        except (FileNotFoundError, NotADirectoryError) as error:
            last = error
        except OSError as error:
            last, first = error, first or error
    raise first or last


if __name__ == "__main__":
    main()
