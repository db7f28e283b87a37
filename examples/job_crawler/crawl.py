"""The command of the jobs `crawl-...`: read a company's postings, note what is new, and ask for the mails.

    python crawl.py COMPANY        CRAWLER_DATABASE, BOARD_URL, CRAWLER_ETCRON [CRAWLER_TOKEN] in its environment

A board that is down, slow or half there fails the crawl with nothing noted, and etcron tries it again. A crawl that
dies between its result and its mails leaves the mails to the next one.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

import httpx
from selectolax.lexbor import LexborHTMLParser, LexborNode
from store import Posting, Store

MAIL_JOB: Final = "send-mail"
SAME_MAIL_S: Final = 30 * 86_400
"""As long as etcron keeps a dedupe key: so often as a mail is asked for, it is sent once."""
MOST_PAGES: Final = 50
MOST_BYTES: Final = 2 * 1024 * 1024
TIMEOUT_S: Final = 10


class BoardError(Exception):
    """The board did not show what it should; the crawl is tried again."""


def main() -> int:
    """One crawl; 0: all is noted and asked for."""
    company = sys.argv[1]
    task = os.environ.get("ETCRON_RUN_ID", f"by-hand/{company}")
    with closing(Store(Path(os.environ["CRAWLER_DATABASE"]))) as store:
        store.begin(task, company)
        try:
            there, new = crawl(os.environ["BOARD_URL"], company, store.known(company))
            mails = store.finish(task, company, there, new)
        except (BoardError, httpx.HTTPError) as error:
            why = str(error).partition("\n")[0] or type(error).__name__
            store.fail(task, why)
            sys.stderr.write(f"the board could not be read: {why}\n")
            return 1
        sys.stdout.write(f"{company}: {len(there)} postings, {len(new)} of them new, {mails} mails\n")
        return ask_for_mails(store)


def crawl(board: str, company: str, known: set[str]) -> tuple[set[str], list[Posting]]:
    """The numbers of all postings, and those whole that are not known yet."""
    with httpx.Client(base_url=board, timeout=TIMEOUT_S) as client:
        links = _links(client, f"/companies/{company}/jobs")
        new = [_posting(client, number, link) for number, link in links.items() if number not in known]
    return set(links), [one for one in new if one is not None]


def _links(client: httpx.Client, path: str) -> dict[str, str]:
    links: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        page = _page(client, path)
        for item in page.css("article.posting"):
            number, link = item.attributes.get("data-number"), item.css_first("h2 a")
            if not number or link is None or not link.attributes.get("href"):
                raise BoardError(f"{path} has a posting without a number or a link")
            links[number] = str(link.attributes["href"])
        following = page.css_first("a[rel=next]")
        if following is None:
            return links
        path = str(following.attributes["href"])
    raise BoardError(f"there are more than {MOST_PAGES} pages")


def _posting(client: httpx.Client, number: str, path: str) -> Posting | None:
    """The posting; None where it was closed meanwhile."""
    try:
        page = _page(client, path)
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.NOT_FOUND:
            return None
        raise
    return Posting(
        number=number, title=_text(page, "h1"), location=_text(page, "p.location"),
        url=urljoin(str(client.base_url), path), description=_text(page, "section.description"),
    )  # fmt: skip


def _page(client: httpx.Client, path: str) -> LexborHTMLParser:
    with client.stream("GET", path) as answer:
        answer.raise_for_status()
        body = b""
        for part in answer.iter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                raise BoardError(f"{path} is larger than {MOST_BYTES} bytes")
    if not body.rstrip().endswith(b"</html>"):
        raise BoardError(f"{path} was cut short")
    return LexborHTMLParser(body)


def _text(page: LexborHTMLParser, selector: str) -> str:
    node: LexborNode | None = page.css_first(selector)
    if node is None:
        raise BoardError(f"a posting has no {selector}")
    return node.text(separator=" ", strip=True)[:5000]


def ask_for_mails(store: Store) -> int:
    """Each mail that is not in etcron's queue yet is put there; 0: all are."""
    token = os.environ.get("CRAWLER_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=os.environ["CRAWLER_ETCRON"], timeout=TIMEOUT_S, headers=headers) as etcron:
        for mail in store.unasked():
            wanted = {"env": {"MAIL": mail}, "dedupeKey": f"mail-{mail}", "dedupeSeconds": SAME_MAIL_S}
            try:
                answer = etcron.post(f"/api/v1/jobs/{MAIL_JOB}/run", json=wanted)
                answer.raise_for_status()
            except httpx.HTTPError as error:
                sys.stderr.write(f"etcron did not take mail {mail}, the next crawl asks again: {error}\n")
                return 1
            store.asked(mail)
    return 0


if __name__ == "__main__":
    sys.exit(main())
