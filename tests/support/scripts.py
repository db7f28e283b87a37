"""The console's modules without a browser: those that reckon, run by node; there is no page to draw on."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from manager.console.pages import VERDICTS

_WEB = Path(__file__).parents[2] / "webroot/static"
_PAGE = """
import { readFile } from "node:fs/promises";
const body = { dataset: { catalog: %s, messages: %s, verdicts: %s, events: "" } };
globalThis.document = Object.assign(new EventTarget(), { documentElement: { lang: %s }, body });
globalThis.window = Object.assign(new EventTarget(), { bootstrap: {} });
globalThis.setInterval = () => 0;
globalThis.fetch = async (path) => ({ ok: true, json: async () => JSON.parse(await readFile(path, "utf8")) });
"""


def evaluate(script: str, *, language: str = "en") -> Any:
    """What the script, which awaits imports of ``js/...``, returns; skipped where there is no node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: make assets")
    paths = (_WEB / f"i18n/{language}.json", _WEB / "i18n/messages.json")
    page = _PAGE % tuple(json.dumps(str(one)) for one in (*paths, VERDICTS, language))
    module = f"const js = (path) => import({json.dumps(f'file://{_WEB}/js/')} + path);\n{page}"
    told = f"process.stdout.write(JSON.stringify(await (async () => {{ {script} }})()));"
    done = subprocess.run(
        [node, "--no-warnings", "--input-type=module", "--experimental-default-type=module", "-"],
        input=module + told, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
