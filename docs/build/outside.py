"""The site has what the documentation links to, also where it lies outside ``docs/`` (a hook of mkdocs.yml).

A link in Markdown leads to the same file on a forge and on the site: the pages below have a place in the site, a folder
stands for its README, and any other file is copied to ``files/``. A link to nothing stays, and fails the build. A
page that would load something from another server fails it, too: the site is read offline.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "UPGRADING.md": "operate/upgrade.md",
    "deploy/README.md": "operate/deploy.md",
    "examples/jobs/README.md": "guides/examples/jobs.md",
    "examples/job_api/README.md": "guides/examples/job-api.md",
    "examples/job_crawler/README.md": "guides/examples/job-crawler.md",
    "examples/one_shot/README.md": "guides/examples/one-shot.md",
}
_SOURCES: Final = {place: source for source, place in PAGES.items()}
_LINK: Final = re.compile(r"(?<=\]\()([^()\s#:]+)(?=[)#])")
_CLOSE: Final = re.compile(r"^((?![ ]|[-*] |\d+\. |[|#<`])\S.*)\n(?=[-*] |1\. |\|)", re.MULTILINE)
_LOADED: Final = re.compile(r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:)?//|<link[^>]* rel=\"?stylesheet[^>]*//")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages, and every file outside that a page links to."""
    for source, place in PAGES.items():
        if files.get_file_from_path(place) is None:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    for page in files.documentation_pages():
        text = Path(page.abs_src_path or "").read_text(encoding="utf-8")
        for target in _LINK.findall(text):
            place = _place(_resolved(page.src_uri, target))
            if place.startswith("files/") and files.get_file_from_path(place) is None:
                source = place.removeprefix("files/")
                files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The same text, each link as the site has it; before a list or a table an empty line, which forges do without."""

    def on_site(match: re.Match[str]) -> str:
        place = _place(_resolved(page.file.src_uri, match[0]))
        return posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")

    return _CLOSE.sub(r"\1\n\n", _LINK.sub(on_site, markdown))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuses a page that loads anything from elsewhere."""
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads {found[0]}...: the site has to work offline")
    return output


def _resolved(place: str, target: str) -> str:
    """The file of the repository that a page of the site, by its source, links to."""
    source = _SOURCES.get(place, "docs/" + place)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return path + "/README.md" if (ROOT / path / "README.md").is_file() else path


def _place(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return "files/" + path if (ROOT / path).is_file() else path
