"""Starts the whole job crawler beside an etcron that `make run` has started: one command, Ctrl-C ends it.

    make crawler [FAST=1]

The board, the service, a mail server, and an etcron worker of its own for the mails; and the jobs that crawl and send.
With --smtp host:port a mail server of yours sends them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
NEEDED: Final = ("httpx", "selectolax", "aiosmtpd")
_STARTS_S: Final = 30


def jobs(companies: tuple[str, ...], environ: dict[str, str], *, fast: bool) -> dict[str, dict[str, Any]]:
    """The jobs by name: one crawl for each company, and the mails, which run when they are asked for."""
    labels = {"app": "job-crawler"}
    crawls = {
        f"crawl-{company}": {
            "command": [sys.executable, str(FOLDER / "crawl.py"), company],
            "cronExpr": f"{number * 5 % 60} {'*' if fast else '0'} {'*' if fast else '*/6'} * * * *",
            "env": environ, "labels": labels, "overlap": "skip", "timeoutSeconds": 300,
            # Three more tries, all within the hour.
            "retry": {"limit": 3, "delaySeconds": 10 if fast else 300, "backoff": 2},
        }
        for number, company in enumerate(companies)
    }  # fmt: skip
    mails = {
        "command": [sys.executable, str(FOLDER / "send_mail.py")],
        "cronExpr": "@yearly", "enabled": False, "overlap": "allow", "onWorkerLost": "rerun",
        "env": environ, "labels": labels, "workers": {"queue": "mail"}, "timeoutSeconds": 60,
        "retry": {"limit": 50, "delaySeconds": 5, "backoff": 2, "maxDelaySeconds": 1800},
    }  # fmt: skip
    return {**crawls, "send-mail": mails}


def main() -> int:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="crawl every minute instead of every six hours")
    parser.add_argument("--data", type=Path, default=Path("data/job-crawler"), help="where its database lies")
    parser.add_argument("--etcron-data", type=Path, default=Path("data"), help="the data directory of `etcron up`")
    parser.add_argument("--server", default=os.environ.get("ETCRON_SERVER", "http://127.0.0.1:8070"))
    parser.add_argument("--smtp", help="a mail server, host:port, instead of the local one")
    given = parser.parse_args()
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        sys.stderr.write(f"{', '.join(missing)} missing; start it with `make crawler`\n")
        return 2
    given.data.mkdir(parents=True, exist_ok=True)
    environ = {
        "CRAWLER_DATABASE": str((given.data / "crawler.sqlite").resolve()), "BOARD_URL": "http://127.0.0.1:8090",
        "SMTP": given.smtp or "127.0.0.1:8025", "CRAWLER_ETCRON": given.server,
    }  # fmt: skip
    if not _save_jobs(given.server, environ, fast=given.fast):
        return 1
    children = [_script("board.py", environ, BOARD_STEP_SECONDS="60" if given.fast else "3600", PORT="8090")]
    children.append(_script("service.py", environ, PORT="8091"))
    if given.smtp is None:
        children.append(
            _script("mail_server.py", environ, PORT="8092", SMTP_PORT="8025", MAILS=str(given.data / "mails"))
        )
    children.append(_worker(given.etcron_data, given.data))
    sys.stdout.write(
        "\nregister and statistics  http://127.0.0.1:8091\njob board                http://127.0.0.1:8090/companies/acme/jobs\n"
        + ("" if given.smtp else "mails                    http://127.0.0.1:8092\n")
        + f"etcron                   {given.server}/?label=app%3Djob-crawler\n\nCtrl-C ends it.\n"
    )
    sys.stdout.flush()
    return _until_one_ends(children)


def _save_jobs(server: str, environ: dict[str, str], *, fast: bool) -> bool:
    import httpx

    sys.path.insert(0, str(FOLDER))
    from board import COMPANIES

    token = os.environ.get("ETCRON_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for name, document in jobs(COMPANIES, environ, fast=fast).items():
        try:
            answer = httpx.put(f"{server}/api/v1/jobs/{name}", json=document, headers=headers, timeout=10)
        except httpx.HTTPError as error:
            sys.stderr.write(f"etcron does not answer at {server}: {error}; start it with `make run`\n")
            return False
        if answer.is_error:
            sys.stderr.write(f"etcron does not take the job {name}: {answer.text}\n")
            return False
    return True


def _script(name: str, environ: dict[str, str], **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(FOLDER / name)], env={**os.environ, **environ, **more})


def _worker(etcron_data: Path, data: Path) -> subprocess.Popen[bytes]:
    """The consumer of the mails: an etcron worker that takes nothing else."""
    configuration = etcron_data / "config" / "worker-1.json"
    return subprocess.Popen([
        sys.executable, "-P", "-m", "cli", "start", "worker", "--config", str(configuration),
        "--worker-name", "mail-sender",
        "--labels", "queue=mail", "--slots", "4", "--data-dir", str(data / "worker"),
    ])  # fmt: skip


def _until_one_ends(children: list[subprocess.Popen[bytes]]) -> int:
    """Ctrl-C, SIGTERM, or the first child that ends, ends them all."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = 0
    try:
        while all(child.poll() is None for child in children):
            time.sleep(0.5)
        status = 1
    except KeyboardInterrupt:
        pass
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(_STARTS_S)
        except subprocess.TimeoutExpired:
            child.kill()
    return status


if __name__ == "__main__":
    sys.exit(main())
