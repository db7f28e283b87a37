"""Machines of one's own on this one: each has files, a network address, a name, a systemd and boots of its own.

They are namespaces, with a bridge between, that all end with the test; what they write lies in memory, over this
machine's own files, and is there after a loss of power. `tests/support/machine/` has what stands in for programs that
need more: apt-get, scp, ssh, `make dist`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.etcd_server import DYING_WITH_PARENT

STAND_INS = Path(__file__).parent / "machine"
SYSTEMD = Path("/lib/systemd/systemd")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_BEGIN = """
mount -t tmpfs tmpfs /mnt && mount --make-shared /mnt && mount -t tmpfs tmpfs /run && mkdir -p /run/netns /mnt/machines
ip link add hub type bridge && ip link set hub up
echo ready
while :; do sleep 3600 & wait; done
"""
_DISK = """
name=$1 root=/mnt/machines/$1/root disk=$(mktemp -d /mnt/disk.XXXX)
mkdir -p $disk/upper $disk/work $root
mount -t overlay overlay -o lowerdir=/,upperdir=$disk/upper,workdir=$disk/work $root
mkdir -p $root/packages $root/machines && mount --bind "$2" $root/packages
rm -rf $root/usr/sbin/policy-rc.d $root/etc/etcron $root/opt/etcron $root/etc/systemd/system/*.wants/*
cp "$3"/* $root/usr/local/sbin/
rm -f $root/etc/resolv.conf && : >$root/etc/resolv.conf
echo "$name" >$root/etc/hostname
printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$name" >$root/etc/hosts
"""
_DISK_SEEN = """
mkdir -p "$2/machines/$1" && mount --bind "/mnt/machines/$1/root" "$2/machines/$1"
"""
_DISK_GONE = """
umount "$2/machines/$1"
umount --recursive "/mnt/machines/$1/root"
"""
_NETWORK = """
name=$1 address=$2
ip netns add "$name" && ip link add "$name" type veth peer name eth0 netns "$name"
ip link set "$name" master hub up
ip -n "$name" link set lo up && ip -n "$name" link set eth0 up && ip -n "$name" addr add "$address/24" dev eth0
"""
_BOOT = """
echo $$ >"$2/cgroup.procs"
exec ip netns exec "$1" unshare --mount --propagation slave --pid --uts --cgroup \\
    --time --boottime "-$(cut -d. -f1 /proc/uptime)" --fork --kill-child sh -ec "$3" sh /mnt/machines/$1/root
"""
_INIT = """
cd "$1"
mount -t proc proc proc && mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run && mount -t tmpfs -o mode=1777 tmpfs tmp && mount -t tmpfs -o mode=755 tmpfs dev
cat proc/sys/kernel/random/uuid >run/boot_id && mount --bind run/boot_id proc/sys/kernel/random/boot_id
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
    mknod -m 666 dev/${device%%:*} c $(echo ${device#*:} | tr : ' ')
done
mkdir -m 1777 dev/shm && mkdir dev/pts && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd
exec chroot . /usr/bin/env -i container=etcron PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    /lib/systemd/systemd --unit=multi-user.target
"""
_TRIAL = """
mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/m && ip link add hub type bridge
mount -t overlay o -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/m
"""


def why_no_machines() -> str | None:
    """What this machine lacks for it; None: nothing."""
    if os.geteuid() != 0:
        return "machines of one's own need root"
    lacking = [name for name in ("unshare", "nsenter", "ip", "chroot", "dpkg-deb") if shutil.which(name) is None]
    if lacking:
        return f"no {', '.join(lacking)} here"
    if not SYSTEMD.exists() or _cgroups() is None:
        return "no systemd, or no cgroups of version 2, here"
    tried = subprocess.run(["unshare", "-mnT", "sh", "-ec", _TRIAL], capture_output=True, text=True, check=False)
    return f"no namespaces, overlays or bridges here: {tried.stderr.strip()}" if tried.returncode else None


def _cgroups() -> Path | None:
    """Where the hierarchy of version 2 is."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    return None


class Machine:
    """One of them; it runs commands as root."""

    def __init__(self, name: str, holder: int, packages: Path) -> None:
        self.name = name
        self._holder = holder
        self._packages = packages
        cgroups = _cgroups()
        assert cgroups is not None, "asked for before"
        self._cgroup = cgroups / f"etcron-{os.getpid()}-{name}"
        self._power: subprocess.Popen[bytes] | None = None
        self._init = 0

    @property
    def root(self) -> str:
        """Of its files, as the holder's namespace sees them."""
        return f"/mnt/machines/{self.name}/root"

    def gets_a_disk(self) -> None:
        """Which is this machine's, as it is."""
        self._makes(_DISK, str(self._packages), str(STAND_INS))

    def disk_is_seen_by(self, desk: Machine) -> None:
        """Below ``/machines`` there, for scp."""
        self._makes(_DISK_SEEN, desk.root)

    def is_replaced(self, desk: Machine) -> None:
        """It has no power, and a fresh disk, which the desk sees."""
        self.loses_power()
        self._makes(_DISK_GONE, desk.root)
        self.gets_a_disk()
        self.disk_is_seen_by(desk)

    def _makes(self, script: str, *arguments: str) -> None:
        subprocess.run([*_inside(self._holder), "sh", "-ec", script, "sh", self.name, *arguments], check=True)

    def boots(self) -> None:
        """It is on the network, and its systemd has started what is enabled."""
        assert self._power is None, "it runs"
        self._cgroup.mkdir(exist_ok=True)
        subprocess.run([*_inside(self._holder), "ip", "link", "set", self.name, "up"], check=True)
        command = [*_inside(self._holder), "sh", "-ec", _BOOT, "sh", self.name, str(self._cgroup), _INIT]
        nothing = subprocess.DEVNULL
        self._power = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
        deadline = time.monotonic() + 60
        self._init = self._power.pid
        while (comm := Path(f"/proc/{self._init}/comm").read_text().strip()) != "systemd":
            assert time.monotonic() < deadline, f"{self.name} does not start: it is at {comm}"
            children = Path(f"/proc/{self._init}/task/{self._init}/children").read_text().split()
            if children and Path(f"/proc/{children[0]}").exists():
                self._init = int(children[0]) if comm in ("nsenter", "unshare") else self._init
            time.sleep(0.02)
        while "running" not in (state := self.tries("systemctl is-system-running --wait").stdout):
            assert time.monotonic() < deadline, f"{self.name}: {state}"
            time.sleep(0.1)

    def loses_power(self) -> None:
        """It is gone from the network at once, and all that ran there with it."""
        assert self._power is not None, "it has none"
        subprocess.run([*_inside(self._holder), "ip", "link", "set", self.name, "down"], check=True)
        os.kill(self._init, signal.SIGKILL)
        self._power.wait()
        self._power = None

    def tries(self, script: str, *, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """What a bash script gave, wherever it came to; subprocess.TimeoutExpired."""
        enter = [
            "nsenter",
            f"--target={self._init}",
            "--mount",
            "--uts",
            "--net",
            "--pid",
            "--cgroup",
            "--time",
            "--root",
            "--wd",
        ]
        environ = ["/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8"]
        return subprocess.run(
            [*enter, *environ, "bash", "-euo", "pipefail", "-c", f"cd /root\n{script}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip

    def does(self, script: str) -> str:
        """What a bash script printed; AssertionError where one of its commands fails."""
        done = self.tries(script)
        assert done.returncode == 0, (
            f"{self.name}: status {done.returncode}\n{script}\n--\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def ends(self) -> None:
        """It is switched off, and leaves nothing on this machine."""
        if self._power is not None:
            self.loses_power()
        for directory, _, _ in os.walk(self._cgroup, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def _inside(holder: int) -> list[str]:
    return ["nsenter", "--target", str(holder), "--mount", "--net", "--pid"]


@contextmanager
def machines(addresses: dict[str, str], packages: Path) -> Iterator[dict[str, Machine]]:
    """One for each name, booted; files of the directory ``packages`` are in ``/packages`` there.

    The last one reaches the files of the others, for scp.
    """
    own = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [*DYING_WITH_PARENT, *own, "bash", "-ec", _BEGIN]
    found: dict[str, Machine] = {}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout is not None
            assert outer.stdout.readline() == "ready\n"
            holder = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
            for name, address in addresses.items():
                subprocess.run([*_inside(holder), "sh", "-ec", _NETWORK, "sh", name, address], check=True)
                found[name] = Machine(name, holder, packages)
                found[name].gets_a_disk()
            *others, desk = found.values()
            for one in others:
                one.disk_is_seen_by(desk)
            for one in found.values():
                one.boots()
            yield found
        finally:
            for one in found.values():
                one.ends()
            outer.kill()


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of a page, and what is said above them of where they are copied."""

    section: str
    title: str
    text: str
    line: int

    @property
    def places(self) -> list[str]:
        """Names of machines, in their order, or what stands for several."""
        return re.findall(r"\bm[1-9]\b|your computer|every worker", self.title)


_FENCE = re.compile(
    r'^On \*\*(?P<title>[^*]+)\*\*:\n\n```sh title="as root"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
"""The title keeps tests of other pages from running them on this machine."""


def blocks(page: str) -> list[Block]:
    """All of the page, in their order."""
    found = []
    for fence in _FENCE.finditer(page):
        before = page[: fence.start()]
        sections = re.findall(r"^## (.+)$", before, re.MULTILINE)
        found.append(Block(sections[-1] if sections else "", fence["title"], fence["text"], before.count("\n") + 2))
    return found
