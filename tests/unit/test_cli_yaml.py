"""Jobs in files: what YAML's readers disagree on is told with its line, sizes are bounded, nothing is constructed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.errors import CommandError, ExitStatus
from cli.manifests.files import MAX_FILE_BYTES, read_manifests
from cli.manifests.yaml_text import YamlError, read_documents

_NOBODY = 65_534


def _read(text: str) -> list[Any]:
    return list(read_documents(text))


def _fault(text: str) -> tuple[int | None, str]:
    with pytest.raises(YamlError) as raised:
        _read(text)
    return raised.value.line, str(raised.value)


def test_plain_data_of_every_kind() -> None:
    text = "a: 1\nb: -2.5\nc: true\nd: ~\ne: [x, 'y']\nf: |\n  two\n  lines\ng: 2026-11-21T09:00:00Z\nh: 2026-11-21\n"
    assert _read(text) == [
        {
            "a": 1, "b": -2.5, "c": True, "d": None, "e": ["x", "y"], "f": "two\nlines\n",
            "g": "2026-11-21T09:00:00Z", "h": "2026-11-21",
        }
    ]  # fmt: skip


def test_documents_anchors_and_merge_keys() -> None:
    text = "a: &base {x: 1, y: 2}\nb:\n  <<: *base\n  y: 3\n---\n---\nc: 1\n"
    assert _read(text) == [{"a": {"x": 1, "y": 2}, "b": {"y": 3, "x": 1}}, {"c": 1}]


@pytest.mark.parametrize("text", ["*/5 * * * *", "* * * * * * *", "*"])
def test_an_expression_that_begins_with_a_star(text: str) -> None:
    line, message = _fault(f"name: x\ncronExpr: {text}\n")
    assert line == 2
    assert "begins with * has to be quoted in YAML" in message


def test_an_expression_that_begins_with_a_star_in_a_list() -> None:
    assert "has to be quoted" in _fault("cronExpr:\n  - */5 * * * *\n")[1]


@pytest.mark.parametrize(("text", "sign"), [("@daily", "@"), ("%x", "%"), ("`date`", "`")])
def test_signs_that_begin_no_text(text: str, sign: str) -> None:
    line, message = _fault(f"name: x\ncronExpr: {text}\n")
    assert (line, f"begins with {sign} has to be quoted" in message) == (2, True)


@pytest.mark.parametrize(("text", "meant"), [("no", "false"), ("yes", "true"), ("on", "true"), ("Off", "false")])
def test_booleans_of_some_readers(text: str, meant: str) -> None:
    line, message = _fault(f"name: x\nlabels:\n  country: {text}\n")
    assert line == 3
    assert message.endswith(f"write {meant}, or '{text}' in quotes")


@pytest.mark.parametrize("text", ["12:30:00", "1:30", "010", "1_000", "0x1F", "0b1", "1e3", ".inf", "+5", "0o17", "5."])
def test_numbers_of_some_readers(text: str) -> None:
    line, message = _fault(f"at: {text}\n")
    assert line == 1
    assert f"write '{text}' in quotes" in message


@pytest.mark.parametrize("text", ["y", "n", "09:30", "1.2.3", "a:b", "1 2", "1/2", "0 */5 * * * * *", "="])
def test_texts_stay_texts(text: str) -> None:
    assert _read(f"a: {text}\n") == [{"a": text}]


def test_a_name_given_twice() -> None:
    assert _fault("a: 1\nb: 2\na: 3\n") == (3, "a is given twice, first on line 1; take one away")


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']", "!mine x", "!!set {a, b}", "!!binary 12", "!!str 12", "!!str 'x'",
        "!!int 12", "!!bool true", "!!null ~", "!!timestamp x", "! x", "&x !!float 1", "!<tag:yaml.org,2002:str> x",
        "!!seq [1]", "!!map {b: 1}", "[!!str 1]", "{!!str b: 1}",
    ],
)  # fmt: skip
def test_tags_are_refused(text: str) -> None:
    line, message = _fault(f"name: x\na: {text}\n")
    assert line == 2
    assert "is not understood; leave it out" in message


def test_a_line_of_many_items_is_told_at_once() -> None:
    assert "it is not YAML" in _fault("-  " * 24 + "}")[1]
    assert "begins with * has to be quoted" in _fault("-  " * 24 + "*/5 * * * *")[1]


def test_a_colon_in_a_text_and_a_tab() -> None:
    assert "': ' in it has to be quoted" in _fault("command: echo a: b\n")[1]
    assert "tab" in _fault("a:\n\tb: 1\n")[1]


def test_aliases_do_not_multiply_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "values" in _fault("\n".join(lines))[1]
    assert "values" in _fault("\n".join(line.replace("[", "{<<: [").replace("]", "]}") for line in lines[1:])
                              .replace("*a0", "{b: 1}"))[1]  # fmt: skip
    assert "nested too deeply" in _fault("a: &a [*a]\n")[1]


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 5_000, "- " * 5_000 + "x", "[" * 100 + "]" * 100])
def test_depth_is_bounded(text: str) -> None:
    assert "nested too deeply" in _fault(text)[1] or "not YAML" in _fault(text)[1]


@pytest.mark.parametrize("text", ["\x00", "a: 'x", "a: [1", "- a\nb: 1", "\x07", "? [a]\n: b", "%YAML 9.9\n---\na: 1"])
def test_whatever_else_is_told(text: str) -> None:
    assert _fault(text)[1]


# Files


def _refused(*paths: object) -> str:
    with pytest.raises(CommandError) as raised:
        read_manifests([str(path) for path in paths])
    assert raised.value.status is ExitStatus.REFUSED
    return str(raised.value)


def test_json_is_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"name": "a",\n "x": \t1e3}')
    (found,) = read_manifests([str(path)])
    assert (found.document, found.place) == ({"name": "a", "x": 1000.0}, f"{path}, job 1")
    path.write_text('{"name": "a",\n "name": "b"}')
    assert "'name' is given twice" in _refused(path)
    many = ",".join(f'"k{number}":0' for number in range(200_000))
    path.write_text(f'{{"name": "a", {many}, "k199999": 1}}')  # looked for once, not once for each name
    assert "'k199999' is given twice" in _refused(path)
    path.write_text('{"name": "a",\n nonsense}')
    assert f"{path}:2: it is not JSON" in _refused(path)
    for number in ("NaN", "-Infinity", "1e999"):
        path.write_text(f'{{"name": "a", "timeoutSeconds": {number}}}')
        assert f"{path}: it is not JSON ({number} is no number)" in _refused(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read (No such file or directory)" in _refused(tmp_path / "nothing.yaml")
    path = tmp_path / "a.yaml"
    path.write_bytes(b"name: \xff")
    assert "is not UTF-8 (byte 6)" in _refused(path)
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert "is larger than" in _refused(path)
    path.write_text("just words")
    assert "entry 1 is no job (str)" in _refused(path)
    path.write_text("command: x")
    assert f"{path}:1: name: is missing; give the job a name" in _refused(path)
    path.write_text("name: 5")
    assert "name: is no text" in _refused(path)
    path.write_text("")
    assert "holds no job" in _refused(path)


def test_every_mistake_of_every_file_at_once(tmp_path: Path) -> None:
    for name, text in (("a.yaml", "cronExpr: @daily"), ("b.yaml", "a: no"), ("c.yaml", "name: x")):
        (tmp_path / name).write_text(text)
    message = _refused(tmp_path)
    assert message.splitlines()[0] == "nothing was changed:"
    assert [line.split("/")[-1].split(":")[0] for line in message.splitlines()[1:]] == ["a.yaml", "b.yaml"]


def test_what_lies_behind_a_link_in_a_folder_does_not_count_as_taken_away(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "jobs", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "a.yaml").write_text("name: a")
    (folder / "..data").symlink_to(elsewhere)  # as Kubernetes mounts files
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    assert [one.name for one in read_manifests([str(folder)])] == ["a"]
    (folder / "team").symlink_to(elsewhere)
    (folder / "b.yaml").symlink_to(tmp_path / "gone.yaml")
    (folder / "README").symlink_to(tmp_path / "gone")
    assert [line.split(":")[0] for line in sorted(_refused(folder).splitlines()[1:])] == [
        f"{folder}/b.yaml", f"{folder}/team",
    ]  # fmt: skip


def test_a_folder_that_cannot_be_read_is_a_mistake_and_not_an_empty_one() -> None:
    with tempfile.TemporaryDirectory() as directory, _as_a_user(directory):
        (top := Path(directory) / "jobs").mkdir()
        (top / "a.yaml").write_text("name: a\n")
        (closed := top / "team").mkdir()
        (closed / "b.yaml").write_text("name: b\n")
        assert [one.name for one in read_manifests([str(top)])] == ["a", "b"]
        closed.chmod(0)
        for path in (closed, top, closed / "b.yaml"):
            with pytest.raises(CommandError, match=r"team(/b\.yaml)?: cannot be read \(Permission denied\)"):
                read_manifests([str(path)])
        closed.chmod(0o700)


@contextlib.contextmanager
def _as_a_user(directory: str) -> Iterator[None]:
    """One whom permissions hold back; the directory is theirs."""
    if os.geteuid() != 0:
        yield
        return
    os.chown(directory, _NOBODY, -1)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_the_same_file_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: x")
    assert len(read_manifests([str(path), str(path)])) == 1


def test_flow_yaml_on_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"{name: x, command: y}")

    monkeypatch.setattr("sys.stdin", Stdin)
    (found,) = read_manifests(["-"])
    assert (found.document, found.place) == ({"name": "x", "command": "y"}, "stdin:1")


@given(st.text(alphabet=st.sampled_from(list(" \n\t-:*@&!|>%'\"[]{},#?~<=.0123456789abnoyes_")), max_size=80))
@settings(max_examples=400, deadline=None)
def test_any_text_is_plain_data_or_a_fault_that_is_told(text: str) -> None:
    with contextlib.suppress(YamlError):
        json.dumps(_read(text))
