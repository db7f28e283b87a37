"""The command of the job `send-mail`: send the mail whose number is in MAIL, once.

It fails while the mail server is away, and etcron tries it again. A second try of a mail that was taken has the same
Message-ID: where this process died before it could note that, the mail server may tell the two apart.
"""

from __future__ import annotations

import os
import smtplib
import sys
from contextlib import closing
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from store import Mail, Store

DOMAIN: Final = "job-crawler.example"
TIMEOUT_S: Final = 20


def main() -> int:
    """0: it is sent, now or before."""
    with closing(Store(Path(os.environ["CRAWLER_DATABASE"]))) as store:
        mail = store.mail(os.environ["MAIL"])
        if mail is None:
            sys.stderr.write(f"there is no mail {os.environ['MAIL']}\n")
            return 2
        if mail.is_sent:
            sys.stdout.write(f"mail {mail.id} was sent before\n")
            return 0
        host, _, port = os.environ.get("SMTP", "127.0.0.1:8025").rpartition(":")
        try:
            with smtplib.SMTP(host, int(port), timeout=TIMEOUT_S) as server:
                server.send_message(message(mail))
        except (OSError, smtplib.SMTPException) as error:
            sys.stderr.write(f"the mail server at {host}:{port} did not take it: {error}\n")
            return 1
        store.sent(mail.id)
        sys.stdout.write(f"mail {mail.id} to {mail.email}: {len(mail.postings)} postings\n")
    return 0


def message(mail: Mail) -> EmailMessage:
    """What the user reads."""
    made = EmailMessage()
    count = len(mail.postings)
    made["Subject"] = f"{count} new job{'s' * (count > 1)} for you"
    made["From"] = Address("Job crawler", "jobs", DOMAIN)
    made["To"] = Address(mail.name, addr_spec=mail.email)
    made["Date"] = format_datetime(datetime.now(UTC))
    made["Message-ID"] = f"<mail-{mail.id}@{DOMAIN}>"
    listed = "\n\n".join(
        f"{one['title']} at {one['company']}, {one['location']}\n{one['url']}" for one in mail.postings
    )
    made.set_content(f"Hello {mail.name},\n\nthis is new and fits what you look for:\n\n{listed}\n")
    return made


if __name__ == "__main__":
    sys.exit(main())
