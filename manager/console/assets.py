"""The browser's files: what `make assets` built (hashed names, from a manifest), and our own (one tag for all of them).

* ``/static/vendor/<name>-<hash>.<ext>``: built from package-lock.json by npm; the name changes with the content.
* ``/static/<tag>/<path>``: ours. The tag is a hash over all of them, and modules import each other by relative paths,
  so each import carries it too. Both are kept by browsers for ever. A tag of another manager's (behind one proxy,
  during an upgrade) still gets our file, but is not kept.
* ``/static/<tag>/vendor/pages/<page>.js``: the scripts of a page as one file. `make assets` builds it; where a script
  has changed since, pages load the scripts as they are.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import mimetypes
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

BUILD_COMMAND: Final = "make assets"
FOREVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
_TAG = re.compile(r"own-[0-9a-f]{12}")
_VENDOR = "vendor"
_PAGES = f"{_VENDOR}/pages"
_ALONE = ("js/early.js", "js/main.js", "js/live/worker.js")
"""What no page imports."""
_WORTH_PACKING = 512
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file, ready to be sent."""

    content: bytes
    packed: bytes | None
    """The same in gzip, where that is smaller."""
    content_type: str
    cache_control: str
    etag: str


class Assets:
    """The files below a webroot's ``static``; found and read when they are first asked for, then kept.

    Who only calls the API waits for none of that.
    """

    def __init__(self, static: Path) -> None:
        self._static = static
        self._read: dict[Path, Asset] = {}

    @cached_property
    def _manifest(self) -> dict[str, str]:
        return _manifest_in(self._static)

    @cached_property
    def _own(self) -> list[str]:
        return sorted(_own_files(self._static))

    @cached_property
    def _pages(self) -> list[str]:
        scripts = [name for name in self._own if name.endswith(".js")]
        pages = sorted(path.relative_to(self._static).as_posix() for path in (self._static / _PAGES).glob("*.js"))
        return pages if _built_from(self._static) == _hash_of(self._static, scripts) else []

    @cached_property
    def _tag(self) -> str:
        return f"own-{_hash_of(self._static, [*self._own, *self._pages])}"

    @property
    def built(self) -> bool:
        """Whether everything of others that the pages need is there; else somebody has to run BUILD_COMMAND."""
        files = [self._static / _VENDOR / file for file in self._manifest.values()]
        return bool(files) and all(file.is_file() for file in files)

    def url(self, name: str) -> str:
        """Where browsers get it: by a name of the manifest (``vendor.js``), or by a path of ours (``js/main.js``)."""
        if name in self._manifest:
            return f"/static/{_VENDOR}/{self._manifest[name]}"
        if name not in self._own:
            raise KeyError(f"there is no asset {name!r}")
        return f"/static/{self._tag}/{name}"

    def modules(self, page: str, *, charts: bool) -> list[str]:
        """The URLs of what a page runs: the module that starts it, then those that browsers may fetch ahead."""
        if (built := f"{_PAGES}/{page}.js") in self._pages:
            return [f"/static/{self._tag}/{built}"]
        folders = ("js", "js/live", f"js/{page}", "js/charts" if charts else "js")
        wanted = [name for name in self._own if name.rpartition("/")[0] in folders and name not in _ALONE]
        return [self.url(name) for name in ("js/main.js", *wanted)]

    def find(self, path: str) -> Asset | None:
        """The file at a path below ``/static/``, and nothing outside of it."""
        tag, _, rest = path.partition("/")
        tagged = _TAG.fullmatch(tag) is not None
        try:
            file = (self._static / (rest if tagged else path)).resolve(strict=True)
        except (OSError, ValueError):
            return None
        if not file.is_relative_to(self._static) or not file.is_file():
            return None
        hashed = tag == self._tag or (tag == _VENDOR and rest in self._manifest.values())
        return self._kept(file) if hashed else _read(file, ASK_AGAIN)

    def _kept(self, file: Path) -> Asset:
        if file not in self._read:
            self._read[file] = _read(file, FOREVER)
        return self._read[file]


def _manifest_in(static: Path) -> dict[str, str]:
    try:
        names: dict[str, str] = json.loads((static / _VENDOR / "manifest.json").read_text())
    except FileNotFoundError:
        return {}
    return names


def _built_from(static: Path) -> str:
    try:
        return (static / _PAGES / "built-from").read_text()
    except FileNotFoundError:
        return ""


def _own_files(static: Path) -> list[str]:
    paths = (path.relative_to(static) for path in static.rglob("*") if path.is_file())
    return [path.as_posix() for path in paths if path.parts[0] != _VENDOR]


def _hash_of(static: Path, names: list[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        content = (static / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def _read(file: Path, cache_control: str) -> Asset:
    content = file.read_bytes()
    packed = gzip.compress(content, mtime=0) if len(content) >= _WORTH_PACKING else None
    return Asset(
        content=content,
        packed=packed if packed is not None and len(packed) < len(content) else None,
        content_type=_TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream",
        cache_control=cache_control,
        etag=hashlib.sha256(content).hexdigest()[:16],
    )
