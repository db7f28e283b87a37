"""The command line's client: what went wrong on the way, in words and with the right exit status."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pytest
import trustme

from cli.__main__ import main
from cli.arguments import seconds
from cli.client import Client, ProblemError, job_path, run_path
from cli.errors import CommandError, ExitStatus
from cli.following import wait_for_end
from cli.job_saving import merged, setting, without_nulls
from cli.printing import one_line, print_json, print_pairs, print_table, say, tell
from cli.profiles import Profile, keep, read_profiles
from cli.times import instant
from common.jobs.reader import parse_job
from tests.support.etcd_server import free_port
from tests.support.sources import NODES


@contextmanager
def _answering(*answers: bytes, tls: ssl.SSLContext | None = None, asked: list[bytes] | None = None) -> Iterator[str]:
    """A server that answers each connection with the next of these, whatever is `asked`; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            plain, _ = listener.accept()
            with plain, contextlib.suppress(ssl.SSLError):
                connection = tls.wrap_socket(plain, server_side=True) if tls else plain
                with connection:
                    request = connection.recv(65_536)
                    if asked is not None:
                        asked.append(request.partition(b" HTTP/")[0])
                    connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


def _http(status: int, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def _error(*answers: bytes, method: str = "GET") -> CommandError:
    with _answering(*answers) as url, Client([url]) as client, pytest.raises(CommandError) as raised:
        client.call(method, "/x", None if method == "GET" else {})
    return raised.value


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, 5),
        (401, 7),
        (403, 7),
        (404, 3),
        (409, 4),
        (412, 4),
        (413, 5),
        (415, 5),
        (500, 6),
        (502, 6),
        (503, 6),
        (504, 6),
    ],
)
def test_exit_status_of_an_answer(status: int, expected: int) -> None:
    error = _error(_http(status, b'{"detail": "because"}'))
    assert (error.status, str(error)) == (expected, "because")


def test_an_edit_that_was_overtaken_does_not_mean_that_the_manager_is_away() -> None:
    """Else the others of many would not be gone on with."""
    error = _error(_http(503, json.dumps({"code": "overtaken", "detail": "it changed; try again"}).encode()))
    assert (error.status, str(error)) == (ExitStatus.CONFLICT, "it changed; try again")


def test_a_path_that_this_manager_has_not() -> None:
    error = _error(_http(404, b'{"code": "no-such-path", "detail": "not found"}'))
    assert (error.status, "of another version" in str(error)) == (ExitStatus.REFUSED, True)


def test_a_server_with_a_path_that_nobody_takes_off() -> None:
    refused = _http(404, b'{"code": "no-such-path", "detail": "not found"}')
    with _answering(refused) as url, Client([f"{url}/cron/"]) as client, pytest.raises(CommandError) as raised:
        client.get("/x")
    assert raised.value.status is ExitStatus.USAGE
    assert str(raised.value).startswith(f"--server: {url}/cron has a path, and the address of a manager has none; ")
    assert f"write {url} (" in str(raised.value)


def test_the_path_of_a_server_goes_before_each_call_for_a_proxy_to_take_it_off() -> None:
    asked: list[bytes] = []
    with _answering(_http(200, b"[1]"), _http(200, b"{}"), asked=asked) as url, Client([f"{url}/cron/"]) as client:
        assert client.get("/x", {"a": 1}) == [1]
        client.post("/y")
    assert asked == [b"GET /cron/x?a=1", b"POST /cron/y"]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, b'{"code": "not-found", "detail": "there is no such token (any more)"}', 0),
        (401, b'{"code": "login-needed", "detailCode": "token-invalid", "detail": "the token is not valid"}', 0),
        (401, b"<html>Authorization required", 7),
        (403, b"<html>Forbidden", 7),
        (403, b'{"code": "foreign-host", "detail": "cron is not a name of this manager"}', 7),
        (404, b"<html>Not Found", 3),
    ],
)
def test_a_logout_believes_nobody_but_a_manager_that_the_token_is_gone(
    status: int, body: bytes, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for variable in ("ETCRON_SERVER", "ETCRON_PROFILE", "ETCRON_CA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with _answering(_http(status, body)) as url:
        keep(Profile(name="default", server=url, token=f"etcron_{'a' * 12}_{'b' * 64}"))
        assert main(["logout"]) == expected
    assert read_profiles() == {}
    assert (f"token {'a' * 12} is forgotten here, and may still be good" in capsys.readouterr().err) is (expected != 0)


def test_every_mistake_of_bad_input_is_told_with_its_remedy() -> None:
    errors = [{"field": name, "message": "is bad", "remedy": "mend it"} for name in ("a", "b")]
    error = _error(_http(400, json.dumps({"errors": errors}).encode()))
    assert isinstance(error, ProblemError)
    assert str(error) == "refused:\n  a: is bad; mend it\n  b: is bad; mend it"
    error = _error(_http(400, json.dumps({"errors": errors[:1]}).encode()))
    assert str(error) == "a: is bad; mend it"


def test_a_proxys_page_is_no_problem_document() -> None:
    error = _error(_http(502, b"<html>bad gateway</html>", "text/html"))
    assert (error.status, str(error)) == (ExitStatus.UNAVAILABLE, "GET /x was answered with status 502")
    error = _error(_http(200, b"<html>welcome</html>", "text/html"))
    assert "does not answer as an etcron manager" in str(error)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"items": {}}', pytest.param(b"[" * 100_000, id="deep")])
def test_a_list_of_a_server_that_is_no_manager(body: bytes) -> None:
    with _answering(_http(200, body)) as url, Client([url]) as client, pytest.raises(CommandError) as raised:
        list(client.items("/x", {}, warnings=[]))
    assert raised.value.status is ExitStatus.UNAVAILABLE
    assert "does not answer as an etcron manager: its answer to GET /x " in str(raised.value)


def test_no_answer_to_a_change_is_in_doubt() -> None:
    error = _error(b"", method="POST")
    assert error.status is ExitStatus.UNAVAILABLE
    assert "may or may not have been carried out: look before you repeat it" in str(error)
    assert "may or may not" not in str(_error(b""))
    assert "does not speak HTTP" in str(_error(b"SSH-2.0-OpenSSH\r\n"))


@pytest.mark.parametrize(
    ("length", "why"),
    [("Content-Length: 9", "ended early"), ("Content-Length: 999999999", "is greater than 268"),
     ("Transfer-Encoding: chunked", "ended early")],
)  # fmt: skip
def test_an_answer_that_is_not_all_of_it_is_none(length: str, why: str) -> None:
    cut = f"HTTP/1.1 200 X\r\nContent-Type: text/plain\r\n{length}\r\n\r\n5\r\nhello".encode()
    with (
        _answering(cut) as url,
        Client([url]) as client,
        pytest.raises(CommandError, match=f"the answer {why}") as raised,
    ):
        client.text("/x")
    assert raised.value.status is ExitStatus.UNAVAILABLE


def test_nobody_there() -> None:
    with Client([f"http://127.0.0.1:{free_port()}"]) as client, pytest.raises(CommandError) as raised:
        client.get("/x")
    assert raised.value.status is ExitStatus.UNAVAILABLE
    assert "connection refused; start it (`etcron up`" in str(raised.value)


def test_the_next_server_is_asked_where_no_connection_was_made() -> None:
    with _answering(_http(200, b"[1]")) as url, Client([f"127.0.0.1:{free_port()}", url]) as client:
        assert client.get("/x") == [1]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x", "http://", "http://x:port", "http://u:p@x", "http://x/?a", "http://x:0", "http://[::1", "http://a b",
        "http://x/a b", "http://x/\u00fc", "http://\udcff", "a\x00b",
    ],
)  # fmt: skip
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(CommandError) as raised:
        Client([url])
    assert raised.value.status is ExitStatus.USAGE


def test_bytes_of_an_argument_that_are_no_text() -> None:
    with pytest.raises(CommandError) as raised:
        job_path("a\udcff")
    assert (raised.value.status, str(raised.value)) == (
        ExitStatus.NOT_FOUND,
        r"'a\udcff' is not UTF-8; nothing is called so",
    )
    with Client(["http://127.0.0.1:1"]) as client, pytest.raises(CommandError) as raised:
        client.get("/x", {"job": "a\udcff"})
    assert raised.value.status is ExitStatus.REFUSED


def test_an_authority_file_that_is_none() -> None:
    with Client(["https://127.0.0.1:1"], ca="/nowhere.pem") as client, pytest.raises(CommandError) as raised:
        client.get("/x")
    assert raised.value.status is ExitStatus.USAGE
    assert "--ca: /nowhere.pem cannot be used" in str(raised.value)


def test_a_manager_with_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with _answering(_http(200, b"[1]"), tls=tls) as url, Client([url], ca=str(tmp_path / "ca.pem")) as client:
        assert client.get("/x") == [1]
    with _answering(b"", tls=tls) as url, Client([url]) as client, pytest.raises(CommandError) as raised:
        client.get("/x")
    assert raised.value.status is ExitStatus.UNAVAILABLE
    assert str(raised.value).endswith("name who signed it with --ca)")


def test_a_number_that_json_has_not_is_not_sent() -> None:
    with _answering() as url, Client([url]) as client, pytest.raises(CommandError, match="NaN or infinite") as raised:
        client.post("/api/v1/jobs/bulk", {"x": [float("inf")]})
    assert raised.value.status is ExitStatus.REFUSED


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "x"])
def test_seconds_that_are_no_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


@pytest.mark.parametrize("text", ["NaN", "1e999", "[Infinity]", "[1"])
def test_a_value_that_is_not_json_is_a_text(text: str) -> None:
    assert setting(f"timeoutSeconds={text}") == {"timeoutSeconds": text}


_TRIGGERS = {"cronExpr": "@daily", "every": "20s", "after": "30s", "at": "2035-01-01T00:00:00Z"}
_BESIDE = {
    "every": ("offset", "startAt", "endAt", "calendar", "jitterSeconds"), "after": ("startAt", "endAt"),
    "cronExpr": ("timezone", "startAt", "endAt", "calendar", "jitterSeconds"), "at": ("timezone", "jitterSeconds"),
}  # fmt: skip
_VALUES: dict[str, object] = {
    "offset": "5s", "timezone": "Europe/Berlin", "startAt": "2035-01-01T00:00:00Z", "endAt": "2036-01-01T00:00:00Z",
    "calendar": {"exclude": ["12-24"]}, "jitterSeconds": 3,
}  # fmt: skip


@pytest.mark.parametrize(("trigger", "field"), [(one, field) for one, some in _BESIDE.items() for field in some])
def test_a_field_that_goes_with_a_trigger_takes_it_away_in_no_order(trigger: str, field: str) -> None:
    both = {trigger: _TRIGGERS[trigger], field: _VALUES[field]}
    parse_job({"name": "x", "command": "true", **both})  # they do stand beside one another
    for first, second in ((trigger, field), (field, trigger)):
        assert merged({first: both[first]}, {second: both[second]}) == both
    assert without_nulls(merged(both, {field: None})) == {trigger: both[trigger]}


@pytest.mark.parametrize(("old", "new"), [*permutations(_TRIGGERS, 2)])
def test_a_new_trigger_stands_instead_of_the_old_one_and_what_belongs_to_that(old: str, new: str) -> None:
    spec = {old: _TRIGGERS[old], "command": "true", **({"offset": "5s"} if old == "every" else {})}
    assert merged(spec, {new: _TRIGGERS[new]}) == {"command": "true", new: _TRIGGERS[new]}
    assert merged(spec, {new: None}) == spec | {new: None}


def test_labels_and_variables_that_are_named_like_triggers_stay() -> None:
    assert merged({"labels": {"at": "home"}}, {"labels": {"every": "day"}}) == {
        "labels": {"at": "home", "every": "day"}
    }


@pytest.mark.parametrize("text", ["999999d", "800000d", "x", "0001-01-01T00:00:00+14:00"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(CommandError, match="is not a time") as raised:
        instant("--from", text, now=datetime(2026, 3, 29, tzinfo=UTC))
    assert raised.value.status is ExitStatus.USAGE


def test_paths_are_quoted_whole() -> None:
    assert job_path("a/b?c", "pause") == "/api/v1/jobs/a%2Fb%3Fc/pause"
    assert run_path("a@1#1") == "/api/v1/runs/a%401%231"
    for name in ("", ".", ".."):
        with pytest.raises(CommandError):
            job_path(name)


# Waiting for a run: time and server are the test's


class _Runs:
    """A client whose GETs answer the next of these, and a clock that only the sleeps move."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.now = 0.0
        self.slept: list[float] = []

    def get(self, path: str) -> object:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def wait(self) -> dict[str, object]:
        return wait_for_end(self, "j@r-1#1", sleep=self.sleep, monotonic=lambda: self.now)  # type: ignore[arg-type]


def _states(*states: str) -> list[dict[str, str]]:
    return [{"state": state} for state in states]


def test_waits_through_a_runs_whole_life() -> None:
    runs = _Runs(*_states("created", "claimed", "running", "ended", "finished"))
    assert runs.wait() == {"state": "finished"}
    assert runs.slept == [0.1] * 4


def test_looks_with_patience_at_a_long_run() -> None:
    runs = _Runs(*_states(*["running"] * 20, "finished"))
    runs.wait()
    assert runs.slept[:3] == [0.1, pytest.approx(0.15), pytest.approx(0.225)]
    assert max(runs.slept) == 2.0


def test_a_manager_that_is_away_for_a_while_does_not_end_the_waiting() -> None:
    away = CommandError("away", ExitStatus.UNAVAILABLE)
    assert _Runs(*_states("running"), *[away] * 20, *_states("finished")).wait() == {"state": "finished"}


def test_a_manager_that_stays_away_does() -> None:
    runs = _Runs(*_states("running"), CommandError("away", ExitStatus.UNAVAILABLE))
    with pytest.raises(CommandError) as raised:
        runs.wait()
    assert raised.value.status is ExitStatus.UNAVAILABLE
    assert "the run is j@r-1#1: it goes on, look at it later" in str(raised.value)
    assert 60 < runs.now < 65


def test_a_run_that_has_ended_and_whose_record_stays_away_is_told_and_given_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = _Runs(*_states("running", "ended"))
    with pytest.raises(CommandError) as raised:
        runs.wait()
    assert raised.value.status is ExitStatus.UNAVAILABLE
    assert "etcron run show 'j@r-1#1'" in str(raised.value)
    assert 60 < runs.now < 65
    assert capsys.readouterr().err.count("has ended; its record, which has the verdict, waits for the log store") == 1


def test_a_record_that_comes_late_is_waited_for() -> None:
    assert _Runs(*_states(*["ended"] * 30, "finished")).wait() == {"state": "finished"}


def test_a_run_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(CommandError) as raised:
        _Runs(CommandError("no run", ExitStatus.NOT_FOUND)).wait()
    assert raised.value.status is ExitStatus.NOT_FOUND


UNSEEN = "\u202e\u2066\u200f\u061c\u200b\u2060\ufeff\xad\u2028\u2029\U000e0041"


def test_what_is_not_seen_is_written_out_in_every_text_and_the_same_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    escaped = json.dumps(UNSEEN)[1:-1]
    assert one_line(f"a{UNSEEN}é漢") == f"a{escaped}é漢"
    tell(UNSEEN)
    say(f"one\ntwo{UNSEEN}")
    print_pairs([(UNSEEN, UNSEEN)])
    print_table(["H"], [[UNSEEN]], none="")
    print_json({"x": [UNSEEN, "é\x7f\x9b"]})
    printed = capsys.readouterr()
    assert not set(UNSEEN) & set(printed.out + printed.err)
    assert printed.out.count(escaped) == 5
    assert printed.err == f"one\ntwo{escaped}\n"
    assert json.loads(printed.out[printed.out.index("{") :]) == {"x": [UNSEEN, "é\x7f\x9b"]}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str) -> None:
    document = {"x": ["é", "ł漢", "\U0001f600", UNSEEN, "\udc80"]}
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    with contextlib.redirect_stdout(stdout):
        print_json(document)
    stdout.flush()
    assert json.loads(stdout.buffer.getvalue().decode("utf-8")) == document


def test_commands_print_through_one_place_alone() -> None:
    own = {"printing.py", "progress.py", "up.py", "programs.py", "login_link.py"}
    calls = {
        f"{path.name}:{node.lineno}"
        for path, nodes in NODES.items() if path.parts[0] == "cli" and path.name not in own
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    }  # fmt: skip
    assert calls == set()


def test_controls_of_an_argument_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["job", "show", "a", "b\x1b]0;x\x07"])
    assert "unrecognized arguments: b␛]0;x␇" in capsys.readouterr().err


def test_controls_never_reach_a_table() -> None:
    assert one_line("a\x1b[31m\nb\x7f\x9b") == "a␛[31m␊b␡\N{REPLACEMENT CHARACTER}"
