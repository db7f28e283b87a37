"""The report on a crontab, or an export, as it is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cli.import_report import ImportReport
from common.crontab.jobs import translate
from common.crontab.lines import read_lines

WHY = "5/10 is 5 alone to most crons, and from 5 on every 10 to etcron; write 5 or 5-<last>/10"
TEXT = """\
5/10 * * * * a
# nothing to say of it

5/10 * * * * b
A=b
5/10 * * * * c
5/20 * * * * d
"""
TOLD = f"""\
1  REFUSED [1]: 5/10 * * * * a
2  comment
3  blank
4  REFUSED [1]: 5/10 * * * * b
5  variable A: in the environment of the commands below
6  REFUSED [1]: 5/10 * * * * c
7  REFUSED: 5/20 * * * * d
     {WHY.replace("10", "20")}

[1] entries 1-4, 6: {WHY}

7 entries: 1 blank, 1 comment, 1 variable, 4 refused
"""


def test_what_holds_for_several_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = translate(read_lines(TEXT, system=False), timezone="UTC", labels={})
    replace(ImportReport.of(outcomes, [], {}), what=("entry", "entries")).tell()
    assert capsys.readouterr().out == TOLD
