"""Secrets outside of wakeful.toml: `${NAME}`, `NAME_file`, systemd's credentials; and none of them is ever shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wakeful.errors import InvalidConfig
from wakeful.process.application import build_store, build_targets
from wakeful.settings import Settings, exposed, is_given, load

SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
HOOK = '[targets.ops]\nkind = "webhook"\nurl = "https://ops.example/wake"\n'


def loaded(folder: Path, text: str, **environ: str) -> Settings:
    (folder / "wakeful.toml").write_text(text)
    return load(folder / "wakeful.toml", environ={"HOME": "/", **environ})


def refusal(folder: Path, text: str, **environ: str) -> InvalidConfig:
    def built() -> None:
        settings = loaded(folder, text, **environ)
        build_store(settings)
        build_targets(settings)

    with pytest.raises(InvalidConfig) as refused:
        built()
    return refused.value


class TestVariables:
    def test_a_variable_is_filled_in_wherever_a_text_stands(self, tmp_path: Path) -> None:
        text = (
            'db = "postgresql://wakeful:${DB_PASSWORD}@db/${DB_NAME}"\nport = "${PORT}"\ntick = "${TICK}"\n'
            f'{HOOK}headers = {{ Authorization = "Bearer ${{KEY}}" }}\n'
            '[targets.people]\nkind = "notify"\nurls = ["${ONE}", "slack://b"]\n'
        )
        given = {
            "DB_PASSWORD": "hunter22",
            "DB_NAME": "w",
            "PORT": "4748",
            "TICK": "2s",
            "KEY": "k1",
            "ONE": "slack://a",
        }
        settings = loaded(tmp_path, text, **given)
        assert settings.db == "postgresql://wakeful:hunter22@db/w"
        assert (settings.port, settings.tick.total_seconds()) == (4748, 2)
        assert settings.targets["ops"]["headers"] == {"Authorization": "Bearer k1"}
        assert settings.targets["people"]["urls"] == ["slack://a", "slack://b"]

    def test_two_dollars_stand_for_one_and_a_value_is_not_read_again(self, tmp_path: Path) -> None:
        settings = loaded(tmp_path, 'owner = "$${NAME} $5 ${NAME}"\n', NAME="${OTHER}")
        assert settings.owner == "${NAME} $5 ${OTHER}"

    @pytest.mark.parametrize(("environ", "state"), [({}, "is not set"), ({"OPS": ""}, "is empty")])
    def test_one_that_is_not_there_is_named_with_file_and_line(
        self, tmp_path: Path, environ: dict[str, str], state: str
    ) -> None:
        refused = refusal(tmp_path, f'{HOOK}secret = "${{OPS}}"\n', **environ)
        assert f"wakeful.toml, line 4: the variable OPS {state}" in refused.message
        assert (refused.field, refused.fix) == ("targets.ops.secret", "Set OPS before the start.")

    def test_bytes_that_are_not_text_are_refused(self, tmp_path: Path) -> None:
        refused = refusal(tmp_path, f'{HOOK}secret = "${{OPS}}"\n', OPS="abc\udcff")
        assert "wakeful.toml, line 4: the variable OPS is not text in UTF-8" in refused.message

    @pytest.mark.parametrize("text", ["${", "${}", "${a b}", "a ${A"])
    def test_what_is_not_a_name_is_refused(self, tmp_path: Path, text: str) -> None:
        refused = refusal(tmp_path, f'\nowner = "{text}"\n', A="x")
        assert "line 2" in refused.message
        assert "$${" in refused.fix


class TestFiles:
    def test_every_text_can_come_from_a_file_without_its_last_line_break(self, tmp_path: Path) -> None:
        (tmp_path / "db").write_text("postgresql://wakeful:hunter22@db/w\n")
        (tmp_path / "wake").write_bytes(b"router-token\r\n")
        (tmp_path / "ops").write_text(f"{SECRET}")
        (tmp_path / "old").write_text(" two\nlines \n\n")
        text = (
            f'db_file = "{tmp_path}/db"\nwake_token_file = "${{WHERE}}/wake"\n'
            f'{HOOK}secret_file = "{tmp_path}/ops"\nprevious_secret_file = "{tmp_path}/old"\n'
        )
        settings = loaded(tmp_path, text, WHERE=str(tmp_path))
        assert (settings.db, settings.wake_token) == ("postgresql://wakeful:hunter22@db/w", "router-token")
        ops = settings.targets["ops"]
        assert (ops["secret"], ops["previous_secret"]) == (SECRET, " two\nlines \n")
        assert not any(name.endswith("_file") for name in ops)

    def test_the_text_of_a_file_is_taken_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("a${HOME}b\n")
        assert loaded(tmp_path, f'wake_token_file = "{tmp_path}/token"\n').wake_token == "a${HOME}b"

    def test_a_variable_can_name_the_file_and_goes_before_the_settings_file(self, tmp_path: Path) -> None:
        (tmp_path / "db").write_text("here.db\n")
        named = {"WAKEFUL_DB_FILE": str(tmp_path / "db")}
        assert loaded(tmp_path, 'db = "other.db"\n', **named).db == "here.db"
        refused = refusal(tmp_path, "", WAKEFUL_DB="other.db", **named)
        assert (refused.field, refused.message) == ("WAKEFUL_DB_FILE", "WAKEFUL_DB is set too")

    def test_a_relative_name_is_looked_for_in_systemd_s_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        credentials = tmp_path / "credentials"
        credentials.mkdir()
        (credentials / "ops").write_text("from systemd\n")
        (tmp_path / "ops").write_text("from here\n")
        monkeypatch.chdir(tmp_path)
        text = f'{HOOK}secret_file = "ops"\n'
        assert loaded(tmp_path, text).targets["ops"]["secret"] == "from here"
        given = {"CREDENTIALS_DIRECTORY": str(credentials)}
        assert loaded(tmp_path, text, **given).targets["ops"]["secret"] == "from systemd"
        absolute = f'{HOOK}secret_file = "{tmp_path}/ops"\n'
        assert loaded(tmp_path, absolute, **given).targets["ops"]["secret"] == "from here"
        assert "LoadCredential" in refusal(tmp_path, f'{HOOK}secret_file = "none"\n', **given).fix

    @pytest.mark.parametrize(
        ("text", "line", "said"),
        [
            ('db = "a.db"\ndb_file = "db"\n', 2, "db is given too"),
            (f'{HOOK}secret = "s"\nsecret_file = "ops"\n', 5, "secret is given too"),
            (f'{HOOK}secret_file = "/no/such/file"\n', 4, "/no/such/file cannot be read: No such file"),
            (f"{HOOK}secret_file = 7\n", 4, "not the name of a file"),
            ('wake_token_file = "/dev/null"\n', 1, "is empty"),
            ('wake_token_file = "/dev/zero"\n', 1, "longer than 65,536 bytes"),
            ('port_file = "/etc/hostname"\n', 1, "there is no setting 'port_file'"),
            ('\nwake_tokn_file = "x"\n', 2, "Did you mean wake_token_file?"),
            (f'{HOOK}secret_fil = "x"\n', 4, "Did you mean secret_file?"),
            (f'{HOOK}secrt_file = "/etc/passwd"\n', 4, "a webhook target has no setting 'secrt'"),
        ],
    )
    def test_every_refusal_names_file_and_line(self, tmp_path: Path, text: str, line: int, said: str) -> None:
        refused = str(refusal(tmp_path, text))
        assert said in refused
        assert f"wakeful.toml, line {line}:" in refused

    def test_a_file_that_is_not_text_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_bytes(b"\xff\xfe")
        assert "is not text in UTF-8" in refusal(tmp_path, f'wake_token_file = "{tmp_path}/key"\n').message

    def test_a_variable_for_a_file_that_sets_nothing_stops_the_start(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, "", WAKEFUL_PORT_FILE="x").field == "WAKEFUL_PORT_FILE"
        assert "Did you mean WAKEFUL_DB_FILE?" in refusal(tmp_path, "", WAKEFUL_DB_FIL="x").fix

    def test_a_setting_in_a_file_counts_as_given(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "wakeful.toml").write_text('timezone_file = "zone"\n')
        assert is_given("timezone", tmp_path / "wakeful.toml")
        assert not is_given("owner", tmp_path / "wakeful.toml")
        monkeypatch.setenv("WAKEFUL_OWNER_FILE", "owner")
        assert is_given("owner", tmp_path / "wakeful.toml")


def check_hidden(shown: str, secret: str) -> None:
    for form in {secret, repr(secret)[1:-1], secret[:30]}:
        assert f"'{form}" not in shown
        assert len(form) < 6 or form not in shown


class TestNothingIsShown:
    def test_logs_hide_what_came_from_a_file_and_the_password_of_the_database(self, tmp_path: Path) -> None:
        (tmp_path / "ops").write_text("signing-secret\n")
        (tmp_path / "db").write_text("postgresql://wakeful:p%40ss-word@db/w\n")
        text = f'db_file = "{tmp_path}/db"\n{HOOK}secret_file = "{tmp_path}/ops"\n'
        hidden = loaded(tmp_path, text).secrets
        assert {"signing-secret", "p%40ss-word", "p@ss-word"} <= set(hidden)
        assert "postgresql://wakeful:p%40ss-word@db/w" not in hidden  # a line may say which database it is

    @pytest.mark.parametrize(
        "text",
        [
            'timezone = "${SECRET}"\n',
            'timezone_file = "{file}"\n',
            'port = "${SECRET}"\n',
            'lease = "${SECRET}"\n',
            'log_level = "x${SECRET}"\n',
            'db = "${SECRET}://x"\n',
            '[targets.ops]\nkind = "${SECRET}"\n',
            '[targets.ops]\nkind = "webhook"\nurl_file = "{file}"\n',
            '[targets.ops]\nkind = "webhook"\nurl = "${SECRET}"\n',
            '[targets.ops]\nkind = "webhook"\nurl = "https://a.example"\ntimeout = "${SECRET}"\n',
            '[targets.ops]\nkind = "webhook"\nurl = "https://a.example"\nsecret = "whsec_!${SECRET}"\n',
            '[targets.ops]\nkind = "inbox"\nconcurrency = "${SECRET}"\n',
        ],
    )
    @pytest.mark.parametrize("secret", ["hünter22", "abc", 'it\'s "quoted" \\ here', "long-" * 30])
    def test_no_error_quotes_a_value_from_elsewhere(self, tmp_path: Path, text: str, secret: str) -> None:
        (tmp_path / "file").write_text(secret)
        text = text.replace("{file}", str(tmp_path / "file"))
        refused = refusal(tmp_path, text, SECRET=secret)
        assert "wakeful.toml, line" in refused.message
        check_hidden(str(refused), secret)

    @pytest.mark.parametrize("wrong", ['secret_file = "ops"', 'secret = "${SECRET}"', 'timeout = "${SECRET}"'])
    def test_neither_does_the_doctor(self, tmp_path: Path, wrong: str) -> None:
        secret = "whsec_not base64 at all"
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SECRET": secret, "PYTHONPATH": ":".join(sys.path)}

        def wakeful(*args: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "wakeful.cli", *args]
            return subprocess.run(
                command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
            )

        assert wakeful("at", "in 1 hour", "hello").returncode == 0
        (tmp_path / "ops").write_text(f"{secret}\n")
        (tmp_path / "wakeful.toml").write_text(f"{HOOK}{wrong}\n")
        done = wakeful("doctor")
        assert done.returncode == 1
        assert "fail\ttargets\ttargets.ops" in done.stdout
        check_hidden(done.stdout + done.stderr, secret)

    def test_a_file_that_only_points_to_secrets_may_be_read_by_everyone(self, tmp_path: Path) -> None:
        file = tmp_path / "wakeful.toml"
        file.write_text(
            f'db = "postgresql://w:${{PW}}@db/w"\n{HOOK}secret_file = "ops"\nheaders = {{ A = "Bearer ${{KEY}}" }}\n'
        )
        file.chmod(0o644)
        assert exposed(file) == ""
        file.write_text(f'{HOOK}secret = "$${{KEY}}"\n')  # a text of its own
        assert exposed(file) == str(file)
