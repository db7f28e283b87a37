"""Every call in a worker, a manager or what they share that may wait for a file, a name service or a lock is known.

Each stands in a function that the event loop does not call: the table says why. The loop's own pool of threads counts,
for a name service that hangs fills it. A new one fails here: give it to
``common.process.threads.beside`` (a thread, a bound and a deadline), or to the worker's ``disk``; what may hang before
a command is executed, to the launcher.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests.support.sources import TREES

FUNCTIONS: Final = {
    "os": {
        "open", "stat", "lstat", "listdir", "scandir", "mkdir", "makedirs", "unlink", "remove", "rename", "replace",
        "fsync", "fdatasync", "statvfs", "access", "readlink", "rmdir", "walk", "waitpid", "wait4", "chmod", "chown",
        "utime", "link", "symlink", "truncate", "getgrouplist", "system", "popen",
    },
    "path": {"exists", "isdir", "isfile", "islink", "getsize", "getmtime", "realpath", "samefile", "expanduser"},
    "pwd": {"getpwuid", "getpwnam", "getpwall"}, "grp": {"getgrgid", "getgrnam", "getgrall"},
    "subprocess": {"run", "Popen", "call", "check_call", "check_output"},
    "socket": {"getaddrinfo", "gethostbyname", "gethostbyaddr", "getfqdn", "create_connection"},
    "time": {"sleep"}, "fcntl": {"flock", "lockf"}, "shutil": {"which", "copy", "copytree", "rmtree", "move"},
    "ssl": {"create_default_context"}, "asyncio": {"to_thread"},
}  # fmt: skip
METHODS: Final = {
    "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "iterdir", "glob", "rglob", "is_file",
    "is_dir", "exists", "stat", "lstat", "resolve", "touch", "rmdir", "load_cert_chain", "load_verify_locations",
}  # fmt: skip

START: Final = "before the loop runs"
THREAD: Final = "in a thread (disk, beside)"
OWN_PROCESS: Final = "in a process of its own, which hangs alone"
KERNEL: Final = "of the kernel's memory: /proc, /dev/null, memfd; or of a child, without waiting for it"
INSTALLED: Final = "of the installation, as the code itself"

KNOWN: Final = {
    "common/configuration/": START, "common/tls.py": THREAD,
    "common/etcd/_rpc.py lacks_descriptors": KERNEL, "common/etcd/auth.py with_password_file": THREAD,
    "common/etcd/certificates.py": THREAD, "common/schedules/zones.py": INSTALLED,
    "common/signing/": START, "worker/generations.py open": START,
    "manager/http/tcp_owner.py _listed": THREAD, "manager/http/unix_socket.py": START,
    "manager/access/oidc/provider.py _context": THREAD, "manager/http/outgoing.py addresses": THREAD,
    "manager/access/audit_files.py": THREAD, "manager/notices/ways.py _context": THREAD,
    "manager/http/https.py _stamp": THREAD, "manager/http/https.py _renewed": THREAD,
    "manager/http/https.py _take": KERNEL, "manager/http/https.py _in_memory": KERNEL,
    "manager/http/errors.py": INSTALLED,
    "manager/console/assets.py": INSTALLED, "manager/console/pages.py": INSTALLED, "manager/wiring.py": START,
    "worker/secrets.py": THREAD, "common/process/disk.py": THREAD, "common/process/secret_files.py": THREAD,
    "worker/identity.py": START, "worker/__main__.py main": START,
    "worker/record/delivery.py set_aside": THREAD,
    "worker/record/spool.py": THREAD, "worker/record/spool_segments.py": THREAD,
    "worker/run/running.py reap": KERNEL, "worker/run/output_reader.py waits": KERNEL,
    "worker/run/first_process.py has_executed": KERNEL,
    "worker/run/spawner.py _own_descriptors": KERNEL,
    "worker/run/spawner.py give_up": KERNEL, "worker/run/spawner.py __init__": KERNEL,
    "worker/guardian/": OWN_PROCESS, "worker/guardian/child.py __init__": "executes the worker's own Python",
    "worker/launcher/accounts.py": OWN_PROCESS,
    "worker/launcher/program.py": OWN_PROCESS, "worker/launcher/unstartable.py": OWN_PROCESS,
    "worker/launcher/link.py ask": KERNEL, "worker/launcher/link.py _begin": "executes the worker's own Python",
    "worker/machine/left_groups.py": THREAD, "worker/machine/": KERNEL, "worker/plan/boot.py": KERNEL,
}  # fmt: skip


@cache
def in_product() -> list[tuple[str, int, str, str]]:
    """Module, line, function, and what is called."""
    programs = {path: tree for path, tree in TREES.items() if path.parts[0] != "cli"}
    return [(str(path), *call) for path, tree in programs.items() for call in blocking_calls(tree)]


def blocking_calls(tree: ast.AST, function: str = "") -> Iterator[tuple[int, str, str]]:
    """Line, innermost function, and what is called."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Call) and (name := may_block(node.func)):
            yield node.lineno, inner, name
        yield from blocking_calls(node, inner)


def may_block(called: ast.expr) -> str | None:
    match called:
        case ast.Name(id="open"):
            return "open"
        case ast.Attribute(value=ast.Name(id=module) | ast.Attribute(attr=module), attr=name) if name in FUNCTIONS.get(
            module, ()
        ):
            return f"{module}.{name}"
        case ast.Attribute(attr=name) if name in METHODS:
            return f".{name}"
        case _:
            return None


def test_every_call_that_may_block_is_off_the_loop() -> None:
    unknown = []
    for module, line, function, name in in_product():
        place = f"{module} {function}"
        if not any(place == known or (known.endswith(("/", ".py")) and place.startswith(known)) for known in KNOWN):
            unknown.append(f"{module}:{line} {function}: {name}")
    assert unknown == [], __doc__


def test_every_place_that_is_known_has_such_a_call() -> None:
    places = {f"{module} {function}" for module, _, function, _ in in_product()}
    assert {known for known in KNOWN if not any(place.startswith(known) for place in places)} == set()
