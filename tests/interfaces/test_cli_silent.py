"""What used to go silently wrong in a shell: each gesture means what it says, or is refused."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from wakeful import open_sync
from wakeful.cli.times import shell_zone
from wakeful.errors import InvalidConfig, InvalidSchedule
from wakeful.settings import load

Wakeful = Callable[..., "subprocess.CompletedProcess[str]"]
HOME = "data/wakeful/wakeful.db"


@pytest.fixture
def wakeful(tmp_path: Path) -> Wakeful:
    """The program in a folder of its own, as a user starts it who has set nothing up."""
    (tmp_path / "here").mkdir()

    def call(*args: str, code: int = 0, **environ: str) -> subprocess.CompletedProcess[str]:
        given = {name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL_", "TZ", "XDG"))}
        given |= {"XDG_DATA_HOME": str(tmp_path / "data"), "TZ": "Europe/Berlin"} | environ
        done = commands.run(args, cwd=tmp_path / "here", env=given)
        assert done.returncode == code, done.stderr
        return done

    return call


def fields(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())


def plain(text: str) -> str:
    """Without its colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


class TestWordsWithoutQuotes:
    @pytest.mark.parametrize(
        ("words", "when", "message"),
        [
            ("at tomorrow at 5pm call mum", "at 17:00", "call mum"),
            ("at in 2 hours tea is ready", "", "tea is ready"),
            ("at 2099-07-01 09:00 new fiscal year", "on Wednesday 1 July 2099 at 09:00", "new fiscal year"),
            ("every weekday at 9am morning brief", "at 09:00 on Monday through Friday", "morning brief"),
            ("every 15 minutes look at the queue", "every 15 minutes", "look at the queue"),
            ("at 30m hello", "", "hello"),
        ],
    )
    def test_the_longest_beginning_that_is_a_time_is_the_time(
        self, wakeful: Wakeful, words: str, when: str, message: str
    ) -> None:
        answer = fields(wakeful(*words.split()))
        assert when in answer["when"]
        assert answer["message"] == message

    def test_what_was_quoted_stays_together(self, wakeful: Wakeful) -> None:
        assert fields(wakeful("at", "tomorrow", "at 5pm call mum"))["message"] == "at 5pm call mum"
        assert fields(wakeful("at", "tomorrow at 9am", "5", "eggs"))["message"] == "5 eggs"

    @pytest.mark.parametrize(
        ("words", "readings"),
        [
            ("at july 4 2090 budget", ['at "july 4 2090" "budget"', 'at "july 4" "2090 budget"']),
            (
                "at tomorrow call mum at 5pm",
                ['at "tomorrow" "call mum at 5pm"', 'at "tomorrow at 5pm" "call mum"'],
            ),
        ],
    )
    def test_two_readings_are_refused_with_both_and_each_of_them_works(
        self, wakeful: Wakeful, words: str, readings: list[str]
    ) -> None:
        self.refused_with_both(wakeful, words, readings)

    def test_tomorrow_and_another_day_are_two_readings(self, wakeful: Wakeful) -> None:
        day = f"{datetime.now(UTC) + timedelta(days=4):%A}".lower()  # not tomorrow, in whatever zone
        readings = [f'at "tomorrow at 5pm" "on {day} dance"', f'at "on {day}" "dance"']
        self.refused_with_both(wakeful, f"at tomorrow at 5pm on {day} dance", readings)

    def refused_with_both(self, wakeful: Wakeful, words: str, readings: list[str]) -> None:
        refused = wakeful(*words.split(), code=2)
        for reading in readings:
            assert f"wakeful {reading}" in refused.stderr
            assert wakeful(*[part.strip(' "') for part in reading.split(' "')]).stdout
        assert refused.stdout == ""

    def test_a_time_alone_is_told_what_is_missing(self, wakeful: Wakeful, tmp_path: Path) -> None:
        assert "nothing is left to say" in wakeful("at", "tomorrow", "at", "5pm", code=2).stderr
        assert "is not a time" in wakeful("at", "someday", "x", code=2).stderr
        assert not (tmp_path / "data").exists()  # what is refused makes no database


class TestZone:
    def test_the_shell_s_own_zone_is_where_a_time_is_read_and_is_said(self, wakeful: Wakeful) -> None:
        answer = fields(wakeful("at", "2099-07-01 09:00", "x"))
        assert (answer["timezone"], answer["utc"]) == ("Europe/Berlin", "2099-07-01T07:00:00Z")
        assert fields(wakeful("preview", "2099-07-01 09:00", TZ=":Asia/Tokyo"))["timezone"] == "Asia/Tokyo"

    def test_what_is_said_goes_before_it_and_so_does_the_setting(self, wakeful: Wakeful) -> None:
        assert fields(wakeful("at", "2099-07-01 09:00", "x", "--tz", "Asia/Tokyo"))["timezone"] == "Asia/Tokyo"
        assert fields(wakeful("at", "2099-07-01 09:00", "x", WAKEFUL_TIMEZONE="UTC"))["utc"] == "2099-07-01T09:00:00Z"

    def test_a_tz_that_is_not_a_name_is_refused(self, wakeful: Wakeful) -> None:
        assert "'CET-1CEST' is not the name of a time zone" in wakeful("at", "9am", "x", TZ="CET-1CEST", code=2).stderr

    def test_the_machine_s_zone_comes_after_tz(self, tmp_path: Path) -> None:
        assert shell_zone({}, tmp_path).name == "UTC"
        (tmp_path / "timezone").write_text("America/New_York\n")
        assert shell_zone({}, tmp_path).name == "America/New_York"
        (tmp_path / "zoneinfo" / "Asia").mkdir(parents=True)
        (tmp_path / "zoneinfo" / "Asia" / "Tokyo").touch()
        (tmp_path / "localtime").symlink_to(tmp_path / "zoneinfo" / "Asia" / "Tokyo")
        assert shell_zone({}, tmp_path) == ("Asia/Tokyo", str(tmp_path / "localtime"))
        assert shell_zone({"TZ": "/usr/share/zoneinfo/Europe/Paris"}, tmp_path) == ("Europe/Paris", "TZ")
        with pytest.raises(InvalidSchedule):
            shell_zone({"TZ": "Mars/Olympus"}, tmp_path)


class TestWhichFile:
    @pytest.mark.parametrize(
        "command",
        ["ls", "show x", "why x", "agenda", "history", "failed", "stats", "cancel x", "target ls", "token ls", "wait"],
    )
    def test_looking_makes_no_database_and_names_the_one_that_is_missing(
        self, wakeful: Wakeful, tmp_path: Path, command: str
    ) -> None:
        refused = wakeful(*command.split(), code=6)
        assert f"there is no database at {tmp_path / HOME}" in refused.stderr
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["here"]

    def test_there_is_one_per_user_and_it_is_named_when_it_is_new(self, wakeful: Wakeful, tmp_path: Path) -> None:
        assert f"note: making a new database: {tmp_path / HOME}" in wakeful("at", "1h", "x").stderr
        assert (tmp_path / HOME).parent.stat().st_mode & 0o77 == 0
        assert "database" not in wakeful("at", "1h", "y").stderr
        assert len(wakeful("ls").stdout.splitlines()) == 2
        assert list((tmp_path / "here").iterdir()) == []

    def test_one_in_this_folder_is_found_used_and_named(self, wakeful: Wakeful, tmp_path: Path) -> None:
        wakeful("at", "1h", "mine")
        wakeful("at", "1h", "ours", "--db", "wakeful.db")
        listed = wakeful("ls")
        assert listed.stdout.endswith("ours\n")
        assert f"note: using the database in this folder: {tmp_path / 'here' / 'wakeful.db'}" in listed.stderr
        assert "note" not in wakeful("ls", WAKEFUL_DB="wakeful.db").stderr

    def test_one_that_is_gone_from_this_folder_is_missed(self, wakeful: Wakeful, tmp_path: Path) -> None:
        (tmp_path / "here" / ".wakeful.db.expected").touch()
        assert "here/wakeful.db" in wakeful("at", "1h", "x", code=6).stderr
        assert not (tmp_path / "data").exists()

    def test_without_a_home_a_file_has_to_be_named(self, wakeful: Wakeful) -> None:
        assert "WAKEFUL_DB" in wakeful("at", "1h", "x", XDG_DATA_HOME="", HOME="nowhere", code=2).stderr


class TestSettings:
    def test_a_variable_that_sets_nothing_stops_the_start(self, wakeful: Wakeful) -> None:
        refused = wakeful("at", "1h", "x", WAKEFUL_TIMEZON="UTC", code=2).stderr
        assert "WAKEFUL_TIMEZON: there is no such setting. Did you mean WAKEFUL_TIMEZONE?" in refused
        assert "WAKEFUL_FROB" in wakeful("serve", WAKEFUL_FROB="1", code=2).stderr

    def test_what_kubernetes_says_of_a_service_called_wakeful_is_not_a_setting(self) -> None:
        linked = {"WAKEFUL_PORT": "tcp://10.0.0.7:4747", "WAKEFUL_SERVICE_HOST": "10.0.0.7"}
        assert load(environ=linked | {"WAKEFUL_PORT_4747_TCP_ADDR": "10.0.0.7", "HOME": "/"}).port == 4747

    @pytest.mark.parametrize(
        ("text", "line", "said"),
        [
            ('owner = "a"\nprot = 1\n', 2, "there is no setting 'prot'. Did you mean port?"),
            ('[target.ops]\nkind = "webhook"\n', 1, "Did you mean targets?"),
            ('\n[targets.ops]\nkind = "webhok"\n', 3, "Did you mean webhook?"),
            ('[targets.ops]\nkind = "webhook"\nurll = "https://a.example"\n', 3, "Did you mean url?"),
            ('[targets.ops]\nkind = "webhook"\n\nurl = "ftp://a"\n', 4, "targets.ops"),
            ('[targets.ops]\nkind = "webhook"\nurl = "https://a.example"\nconcurrency = 0\n', 4, "1 or more"),
            ('tick = "1s"\nlease = "1s"\n', 2, "shorter than two ticks"),
            ('\n\ntimezone = "Mars"\n', 3, "is not an IANA zone"),
            ("batch = 0\n", 1, "less than 1"),
            ('log_level = "loud"\n', 1, "Accepted: debug"),
            ('\n[chats]\n"a*b" = ["1"]\n', 2, "not the name of an owner"),
            ("port = 1\nport =\n", 2, "line 2"),
            ('db = "mysql://x"\n', 1, "is not a store"),
            ('\ndb = "."\n', 2, "is a directory"),
        ],
    )
    def test_every_error_names_file_and_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, said: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "wakeful.toml").write_text(text)
        with pytest.raises(InvalidConfig) as refused, open_sync():
            pass
        assert said in str(refused.value)
        assert "wakeful.toml" in str(refused.value)
        assert f"line {line}" in str(refused.value)

    def test_a_variable_or_an_option_that_is_wrong_together_with_others_is_named(self, tmp_path: Path) -> None:
        environ: dict[str, Any] = {"WAKEFUL_LEASE": "1s", "HOME": "/"}
        with pytest.raises(InvalidConfig, match="WAKEFUL_LEASE: the lease is shorter"):
            load(environ=environ)
        with pytest.raises(InvalidConfig, match="--port: 70000 is more than 65535"):
            load(environ={"HOME": "/"}, flags={"port": 70000})


class TestPurge:
    @pytest.fixture
    def ended(self, wakeful: Wakeful) -> None:
        for owner in ("ann", "bob"):
            wakeful("at", "1h", "x", "--owner", owner, "--key", "k")
            wakeful("cancel", "--all", "--yes", "--owner", owner)

    def listed(self, wakeful: Wakeful) -> list[int]:
        return [len(wakeful("ls", "--all", "--owner", owner).stdout.splitlines()) for owner in ("ann", "bob")]

    @pytest.mark.usefixtures("ended")
    def test_a_number_needs_a_unit(self, wakeful: Wakeful) -> None:
        assert "'90' has no unit. Say 90d" in wakeful("purge", "--older-than", "90", code=2).stderr
        assert "has no unit" in wakeful("purge", "--older-than", "0.001", code=2).stderr
        assert self.listed(wakeful) == [1, 1]

    @pytest.mark.usefixtures("ended")
    def test_it_keeps_to_one_owner_unless_told_otherwise(self, wakeful: Wakeful) -> None:
        shown = fields(wakeful("purge", "--older-than", "1ms", "--dry-run", "--owner", "ann"))
        assert (shown["alarms"], shown["deleted"]) == ("1", "nothing: this is a dry run")
        assert fields(wakeful("purge", "--older-than", "1ms", "--dry-run", "--all-owners"))["alarms"] == "2"
        assert self.listed(wakeful) == [1, 1]
        wakeful("purge", "--older-than", "1ms", "--owner", "ann")
        assert self.listed(wakeful) == [0, 1]
        wakeful("purge", "--older-than", "1ms", "--all-owners")
        assert self.listed(wakeful) == [0, 0]

    @pytest.mark.usefixtures("ended")
    def test_on_a_terminal_it_asks_first(self, wakeful: Wakeful, tmp_path: Path) -> None:
        environ = os.environ | {"XDG_DATA_HOME": str(tmp_path / "data")}
        for answer, left in ((b"n\n", [1, 1]), (b"y\n", [0, 1])):
            ours, theirs = pty.openpty()
            command = [sys.executable, "-m", "wakeful.cli", "purge", "--older-than", "1ms", "--owner", "ann"]
            os.write(ours, answer)
            done = subprocess.run(
                command,
                stdin=theirs,
                cwd=tmp_path,
                env=environ,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            os.close(ours)
            os.close(theirs)
            assert "Delete 1 alarms" in done.stderr
            assert self.listed(wakeful) == left


class TestWait:
    def test_the_first_alarm_is_seen_to_fire_without_anything_set_up(self, wakeful: Wakeful) -> None:
        done = wakeful("at", "in 1 second", "hello", "--wait")
        answer = fields(done)
        assert "no worker is running on this database: this command delivers while it waits" in done.stderr
        assert answer["fired"].startswith("waiting in the inbox")
        assert answer["fire"].startswith(answer["id"])
        assert "inbox" in wakeful("why", answer["id"][:20]).stdout
        assert wakeful("wait", "--for", "1s").stdout.startswith(answer["fire"])

    def test_where_a_worker_runs_it_is_the_worker_that_delivers(self, wakeful: Wakeful, tmp_path: Path) -> None:
        environ = os.environ | {"XDG_DATA_HOME": str(tmp_path / "data")}
        command = [sys.executable, "-m", "wakeful.cli", "worker"]
        with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as worker:
            try:
                assert worker.stderr is not None
                assert "worker, store" in worker.stderr.readline()
                while wakeful("target", "ls").stdout != "inbox\tok\t1\t\n":
                    assert worker.poll() is None
                done = wakeful("at", "in 1 second", "hello", "--wait")
            finally:
                worker.terminate()
        assert "this command delivers" not in done.stderr
        assert fields(done)["fired"].startswith("waiting in the inbox")

    def test_what_fails_is_told_and_ends_with_1(self, wakeful: Wakeful, tmp_path: Path) -> None:
        toml = '[targets.ops]\nkind = "webhook"\nurl = "http://127.0.0.1:9/"\nallow_private = true\n'
        (tmp_path / "here" / "wakeful.toml").write_text(toml)
        command = ("at", "in 1 second", "hello", "--wait", "--to", "ops", "--max-failures", "0")
        assert fields(wakeful(*command, code=1))["fired"].startswith("failed")


class TestTerminal:
    def shown(self, folder: Path, *args: str) -> list[str]:
        """What a terminal of 80 columns shows."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        environ |= {"XDG_DATA_HOME": str(folder / "data"), "TZ": "Europe/Berlin"}
        process = subprocess.Popen([sys.executable, "-m", "wakeful.cli", *args], cwd=folder, stdout=theirs, env=environ)
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # so a pseudo-terminal ends
            while read := os.read(ours, 4096):
                text += read
        os.close(ours)
        assert process.wait(30) == 0
        return text.decode().splitlines()

    def test_lists_fit_80_columns_with_short_ids_in_the_reader_s_zone(self, wakeful: Wakeful, tmp_path: Path) -> None:
        id = fields(wakeful("at", "2099-07-01T09:00:00Z", "a message that is far too long for a line " * 3))["id"]
        heading, line = (plain(text) for text in self.shown(tmp_path, "ls"))
        assert heading.split() == ["ID", "STATUS", "NEXT", "SCHEDULE", "TARGET", "MESSAGE"]
        assert line.startswith(f"{id[:13]}  active  in ")
        assert "2099-07-01" in line
        assert len(line) <= 80
        assert max(len(plain(text)) for text in self.shown(tmp_path, "history")) <= 80
        assert plain(self.shown(tmp_path, "ls", "--status", "failed")[0]).startswith("There are no such alarms.")
        assert "--hours 168" in self.shown(tmp_path, "agenda")[0]
