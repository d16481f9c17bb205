"""The command line against a server: each command once on the database and once through WAKEFUL_URL, word for word."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.remote.world import ServeProcess, command, serving_process

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
# What is different each time, and that an alarm came through another door.
VARIES = (
    (ID, "ID"),
    (re.compile(r"20\d\d-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"@\d{13}"), "@MS"),
    (re.compile(r"\b\d+ (milli)?seconds?\b|\b\d+ m?s\b|\b\d+:\d\d(:\d\d(\.\d+)?)?\b"), "SPAN"),
    (re.compile(r"(\"|\t|^)(late_ms|duration_ms|now)(\":|\t)\s*[\d.]+", re.MULTILINE), r"\1\2\3 N"),
    (re.compile(r"\t1\t\d+\t0$", re.MULTILINE), "\t1\tLATE\t0"),
    (re.compile(r"created_via(\":\"|\t)(cli|http)"), r"created_via\1DOOR"),
    (re.compile(r"worker \S+:\d+"), "WORKER"),
    (re.compile(r"wk_wake_[\w-]+"), "TOKEN"),
    (re.compile(r"on request by (cli|local)\b"), "on request by DOOR"),
)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))  # not that of whoever runs the tests
        with serving_process(tmp_path_factory.mktemp("house")) as serving:
            yield serving


def plain(text: str) -> str:
    for pattern, word in VARIES:
        text = pattern.sub(word, text)
    return text


Said = tuple[int, str, str]
Ask = Callable[..., Said]


def story(ask: Ask) -> list[tuple[str, Said]]:
    """Every command on alarms, in an order in which each has something to say."""
    told: list[tuple[str, Said]] = []

    def do(*args: str) -> str:
        told.append((" ".join(args), ask(*args)))
        return told[-1][1][1]

    def first_id(said: str) -> str:
        found = ID.search(said)
        assert found is not None, told[-1]
        return found[0]

    tea = first_id(do("at", "2090-01-01T09:00:00Z", "Tea", "--label", "l", "--payload", '{"a": 1}', "--key", "tea"))
    do("at", "2090-01-01T09:00:00Z", "Tea", "--label", "l", "--payload", '{"a": 1}', "--key", "tea")
    do("at", "2090-01-01T09:00:00Z", "Coffee", "--key", "tea")
    do("at", "yesterday", "x")
    do("at", "1h", "x", "--to", "nowhere")
    brief = first_id(do("every", "weekday at 9am", "Brief", "--tz", "Europe/Berlin", "--json"))
    do("preview", "every monday at 9am", "--tz", "Europe/Berlin", "-n", "2")
    do("preview", "never")
    do("ls")
    do("ls", "--all", "--json", "-q", "tea")
    do("ls", "--status", "paused")
    do("show", tea)
    do("show", brief, "--json")
    do("show", "01a1dfc1-8d22-7000-87c1-99265ea41940")
    do("why", tea)
    do("agenda", "--hours", "8000", "-n", "3")
    do("pause", brief, "--reason", "lunch")
    do("resume", brief)
    do("resume", tea, "nobody", "--yes")
    do("skip", brief)
    do("skip", brief, "--at", "2020-01-01T00:00:00Z")
    do("skip", tea)
    do("snooze", brief, "200 days")
    do("snooze", brief, "soon")
    do("history")
    do("stats")
    do("failed")
    wake = first_id(do("at", "in 1 second", "now"))
    taken = do("wait", "--for", "30s").split("\t")[0]
    assert taken.startswith(wake)
    do("fail", taken, "HTTP 503")
    do("done", taken, "ok")
    do("show", wake)
    do("retry", taken)
    do("fire", tea)
    do("wait", "--for", "30s", "--json")
    do("done", "01a1dfc1-8d22-7000-87c1-99265ea41940@1")
    do("cancel", tea, "--reason", "enough")
    do("cancel", "--all", "--yes")
    do("wait", "--for", "1s")
    return told


def test_every_command_says_the_same_through_a_server(serving: ServeProcess, tmp_path: Path) -> None:
    house, elsewhere = tmp_path / "house", tmp_path / "elsewhere"
    house.mkdir()
    elsewhere.mkdir()
    with serving_process(house):  # delivers, and nobody asks it anything
        here = story(lambda *args: command(args, house))
    there = story(lambda *args: command(args, elsewhere, WAKEFUL_URL=serving.url))
    assert not list(elsewhere.iterdir())  # no database of its own
    for (args, local), (_, remote) in zip(here, there, strict=True):
        assert (local[0], plain(local[1]), plain(local[2])) == (remote[0], plain(remote[1]), plain(remote[2])), args


NEED_THE_DATABASE = [
    ["serve"],
    ["worker"],
    ["mcp"],
    ["target", "pause", "inbox"],
    ["token", "ls"],
    ["token", "new", "--owner", "eve"],
    ["db", "migrate"],
    ["db", "scheduled-tasks"],
    ["purge", "--older-than", "1d"],
    ["import", "alarm", "x.sqlite"],
]


@pytest.mark.parametrize("args", NEED_THE_DATABASE, ids=" ".join)
def test_what_needs_the_database_says_so_and_makes_none(args: list[str], serving: ServeProcess, tmp_path: Path) -> None:
    code, out, err = command(args, tmp_path, WAKEFUL_URL=serving.url)
    assert (code, out) == (2, "")
    assert "needs the database itself" in err
    assert "--db" in err
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_not_there_is_exit_6(tmp_path: Path) -> None:
    code, out, err = command(["ls"], tmp_path, WAKEFUL_URL="http://127.0.0.1:1")
    assert (code, out) == (6, "")
    assert err == (
        "error: url: http://127.0.0.1:1 cannot be reached (Connect call failed ('127.0.0.1', 1)). "
        "Check the address, and that `wakeful serve` runs there.\n"
    )


@pytest.mark.parametrize(
    ("args", "environ", "what"),
    [
        (["ls", "--db", "a.db", "--url", "http://localhost"], {}, "--db and --url name two places"),
        (["ls", "--profile", "x", "--url", "http://localhost"], {}, "--url and --profile name two places"),
        (["ls"], {"WAKEFUL_URL": "http://localhost", "WAKEFUL_DB": "a.db"}, "WAKEFUL_URL names a server"),
        (["ls", "--profile", "x"], {}, "there is no profile 'x'"),
        (["ls", "--url", "ftp://x"], {}, "is not the address of a server"),
        (["ls", "--url", "http://localhost", "--owner", "eve"], {}, "a token says whose alarms"),
        (["login", "a/b", "--url", "http://127.0.0.1:1"], {}, "cannot be reached"),
        (["login"], {}, "no server is named"),
        (["logout", "x"], {}, "there is no profile 'x'"),
    ],
)
def test_places_that_contradict_each_other_are_refused(
    args: list[str], environ: dict[str, str], what: str, tmp_path: Path
) -> None:
    code, _, err = command(args, tmp_path, HOME=str(tmp_path), **environ)
    assert code == (6 if "reached" in what else 2)
    assert what in err
    assert not (tmp_path / "a.db").exists()


def test_a_flag_counts_before_a_variable(serving: ServeProcess, tmp_path: Path) -> None:
    assert command(["at", "1h", "x", "--db", "here.db"], tmp_path, WAKEFUL_URL="http://127.0.0.1:1")[0] == 0
    assert command(["ls", "--url", serving.url], tmp_path, WAKEFUL_URL="http://127.0.0.1:1", WAKEFUL_DB="x.db")[0] == 0


def test_a_profile_is_kept_where_only_its_user_reads_it(tmp_path: Path) -> None:
    house, home = tmp_path / "house", tmp_path / "home"
    house.mkdir()
    home.mkdir()
    environ = {"XDG_CONFIG_HOME": str(home)}
    token = command(["token", "new", "--owner", "eve"], house)[1]
    secret = re.search(r"wk_[\w-]+", token)
    assert secret is not None
    with serving_process(house) as server:
        code, _, err = command(["ls", "--url", server.url], home, **environ)
        assert (code, "unauthorized" in err or "token" in err) == (5, True)
        code, _, err = command(["login", "home", "--url", server.url], home, WAKEFUL_TOKEN="wk_nobody", **environ)
        assert code == 5, err
        file = home / "wakeful" / "profiles.toml"
        assert not file.exists()  # what does not work is not kept
        code, out, err = command(["login", "home", "--url", server.url], home, WAKEFUL_TOKEN=secret[0], **environ)
        assert code == 0, err
        assert secret[0] not in out + err
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert command(["at", "1h", "hello", "--profile", "home"], home, **environ)[0] == 0
        out = command(["ls", "--json"], home, WAKEFUL_PROFILE="home", **environ)[1]
        assert '"owner_did":"eve"' in out
        assert command(["logout", "home"], home, **environ)[0] == 0
        assert secret[0] not in file.read_text()
        assert command(["ls", "--profile", "home"], home, **environ)[0] == 2


def test_it_waits_for_an_alarm_at_a_server(serving: ServeProcess, tmp_path: Path) -> None:
    code, said, error = command(("at", "in 0.2 s", "now", "--wait"), tmp_path, WAKEFUL_URL=serving.url)
    assert (code, "waiting until it fires" in error) == (0, True), error
    assert "waiting in the inbox" in said
