"""What TAB completes, and the scripts that three shells take for it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.__main__ import main
from cli.completion import SCRIPTS, candidates

_NOUNS = [
    "up", "start", "backup", "restore", "worker", "job", "run", "stats", "forecast", "admin", "audit",
    "cron", "crontab", "import", "login", "logout", "whoami", "user", "service", "token", "session", "binding",
    "access", "channel", "rule", "silence", "alert", "notice", "signing",
    "config", "completion", "version",
]  # fmt: skip


def _of(*words: str) -> list[str]:
    return [value for value, _ in candidates(words)]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("",), _NOUNS),
        (("jo",), ["job"]),
        (("--v",), ["--version"]),
        (("job", "re"), ["resume", "restore"]),
        (("job", "list", "--st"), ["--state"]),
        (("job", "list", "--state", ""), ["enabled", "paused", "broken", "running", "failing"]),
        (("job", "list", "--state=f"), ["--state=failing"]),
        (("job", "list", "--state", "failing", "--st"), []),
        (("job", "list", "--label", "a=b", "--label"), ["--label"]),
        (("job", "list", "-o", ""), ["table", "json"]),
        (("job", "apply", "-f", ""), [":files"]),
        (("job", "apply", "-f", "a.yaml", ""), [":files"]),
        (("job", "apply", "-f", "a.yaml", "--dry"), ["--dry-run"]),
        (("crontab", "import", ""), [":files"]),
        (("up", "--data-dir", ""), [":files"]),
        (("job", "run", "x", "--reason", ""), []),
        (("worker", "dr"), ["drain"]),
        (("worker", ""), ["list", "drain", "undrain", "forget"]),
        (("start", ""), ["manager", "worker", "notifier"]),
        (("start", "worker", "--etcd-u"), ["--etcd-user"]),
        (("worker", "drain", "--wa"), ["--wait"]),
        (("start", "manager", "--api-p"), ["--api-port"]),
        (("config", "show", ""), ["manager", "worker"]),
        (("completion", "z"), ["zsh"]),
        (("cron", "next", "@daily", "--jo"), ["--job"]),
        (("stats", "--da"), ["--days"]),
        (("login", "--pas"), ["--password-stdin"]),
        (("user", "r"), ["remove"]),
        (("binding", "add", "user:alice", "ed"), ["editor"]),
        (("nonsense", "--v"), ["--version"]),
        (("job", "nonsense", "--"), ["--help"]),
    ],
    ids=" ".join,
)
def test_what_a_word_may_become(words: tuple[str, ...], found: list[str]) -> None:
    assert _of(*words) == found


def test_a_candidate_comes_with_its_meaning() -> None:
    assert ("delete", "delete jobs; their runs go on, and their records stay") in candidates(("job", ""))


@contextmanager
def _manager(*names: str) -> Iterator[str]:
    """A manager that has these jobs and workers, for one call; its URL."""
    body = json.dumps({"items": [{"name": name} for name in names]}).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "words",
    [("job", "show"), ("job", "delete", "other"), ("run", "list", "--job"), ("stats",), ("worker", "drain")],
    ids=" ".join,
)
def test_names_come_from_the_manager(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    with _manager("backup", "report", "back\nup") as url:
        monkeypatch.setenv("ETCRON_SERVER", url)
        assert _of(*words, "ba") == ["backup"]


@pytest.mark.parametrize("equals", [[], ["="]], ids=["apart", "equals"])
def test_bash_hands_over_an_address_in_pieces(equals: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with _manager("backup") as url:
        port = url.rpartition(":")[2]
        words = ["job", "show", "--server", *equals, "http", ":", "//127.0.0.1", ":", port, "ba"]
        assert main(["__complete", "bash", *words]) == 0
    assert capsys.readouterr().out == "backup\n"


def test_the_manager_that_the_line_names_is_asked() -> None:
    with _manager("backup") as url:
        assert _of("job", "--x", "show", "--server", url, "b") == ["backup"]


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "ftp://x"])
def test_no_manager_is_no_mistake(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCRON_SERVER", server)
    assert _of("job", "show", "b") == []


def test_a_manager_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.completion._DEADLINE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("ETCRON_SERVER", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert _of("job", "show", "b") == []


@pytest.mark.parametrize(
    ("shell", "words", "printed"),
    [
        ("bash", ["job", "list", "--state", "=", "f"], "failing\n"),
        ("bash", ["job", "list", "--state", "="], "enabled\npaused\nbroken\nrunning\nfailing\n"),
        ("bash", ["job", "apply", "-f", ""], ":files\n"),
        ("zsh", ["job", "pau"], "pause:pause jobs; their runs go on\n"),
        ("fish", ["completion", "f"], "fish\t\n"),
    ],
)
def test_each_shell_is_told_in_its_own_way(
    shell: str, words: list[str], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["__complete", shell, *words]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("arguments", [(), ("tcsh", "job", "")])
def test_a_shell_that_is_none_is_told_nothing(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete", *arguments]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == SCRIPTS[shell]


_TRIES = {
    "bash": (
        "source etcron.bash; COMP_WORDS=(etcron job list --sta); COMP_CWORD=3; _etcron etcron; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    ),
    # Its completion works in its line editor alone: here the words are told to a stand-in for what shows them.
    "zsh": (
        "source etcron.zsh 2>/dev/null; _describe() { print -rl -- ${(P)2%%:*} }; "
        "words=(etcron job list --sta); CURRENT=4; _etcron"
    ),
    "fish": "source etcron.fish; complete -C 'etcron job list --sta' | string replace -r '\\t.*' ''",
}


@pytest.mark.parametrize("shell", _TRIES)
def test_a_shell_completes(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} on this machine")
    (tmp_path / f"etcron.{shell}").write_text(SCRIPTS[shell])
    (tmp_path / "etcron").write_text(f'#!/bin/sh\nexec {sys.executable} -m cli "$@"\n')
    (tmp_path / "etcron").chmod(0o755)
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    environ = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": os.fspath(Path(__file__).parents[2]),
    }  # fmt: skip
    done = subprocess.run(
        [program, *options, "-c", _TRIES[shell]], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("--state\n", "")
