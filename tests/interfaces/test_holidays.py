"""Holidays at the interfaces: what is left out is shown before it is set, and said where it cannot be known."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

import wakeful
from tests.interfaces.world import serving
from wakeful.cli import main
from wakeful.errors import InvalidConfig
from wakeful.schedule.holiday_calendars import CountryDays
from wakeful.settings import load
from wakeful.settings.tables import CalendarSettings

BERLIN = {"berlin": CalendarSettings(country="DE", subdivision="BE")}


async def test_a_preview_over_http_and_from_elsewhere_shows_what_is_left_out(tmp_path: Path) -> None:
    async with serving(db=str(tmp_path / "w.db"), calendars=BERLIN) as visit:
        when = "every day at 9am except public holidays"
        asked = {"when": when, "timezone": "Europe/Berlin", "n": 100}
        told = (await visit("POST", "/v1/preview", asked)).json
        assert told["calendar"] == "berlin"
        assert told["skipped"]
        assert {one["holiday"] for one in told["skipped"]} & {"Christmas Day", "Easter Monday", "Labor Day"}
        assert not {one["utc"] for one in told["skipped"]} & {one["utc"] for one in told["next"]}
        async with wakeful.open(visit.url) as elsewhere:
            found = await elsewhere.parse(when, timezone="Europe/Berlin")
            here = await visit.alarms.parse(when, timezone="Europe/Berlin")
            assert (found.next(90), found.skipped(90)) == (here.next(90), here.skipped(90))
        plain = (await visit("POST", "/v1/preview", {"when": "every day at 9am"})).json
        assert "skipped" not in plain
        alarm = await visit.set(when=when)
        assert alarm["policy"] == {"calendar": "berlin", "on_holiday": "skip"}


async def test_a_server_reads_its_calendars_before_it_is_ready_and_not_in_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[int] = []
    read = CountryDays._read

    def noted(days: CountryDays) -> str:
        readers.append(threading.get_ident())
        return read(days)

    monkeypatch.setattr(CountryDays, "_read", noted)
    async with serving(db=str(tmp_path / "w.db"), calendars=BERLIN) as visit:
        assert len(readers) == 1
        asked = {"when": "every day at 9am except public holidays", "timezone": "Europe/Berlin"}
        assert (await visit("POST", "/v1/preview", asked)).json["calendar"] == "berlin"
    assert len(readers) == 1
    assert readers != [threading.get_ident()]


async def test_without_a_calendar_it_is_refused_over_http(tmp_path: Path) -> None:
    async with serving(db=str(tmp_path / "w.db")) as visit:
        for path, more in (("/v1/preview", {}), ("/v1/alarms", {"wake_message": "x"})):
            refused = await visit("POST", path, {"when": "every day at 9am except public holidays", **more})
            assert refused.told[:2] == (400, "invalid_request")
            assert "[calendars.berlin]" in refused.text


def configured(tmp_path: Path, more: str) -> list[str]:
    file = tmp_path / "wakeful.toml"
    file.write_text(f'db = "{tmp_path}/w.db"\ntimezone = "Europe/Berlin"\n{more}')
    return ["--config", str(file)]


def test_on_the_command_line(tmp_path: Path) -> None:
    config = configured(tmp_path, '[calendars.berlin]\ncountry = "DE"\nsubdivision = "BE"\n')
    run = CliRunner().invoke
    shown = run(main, ["preview", "every day at 9am except public holidays", "-n", "100", "--json", *config])
    assert shown.exit_code == 0, shown.output
    assert {one["holiday"] for one in json.loads(shown.stdout)["skipped"]}
    assert not (tmp_path / "w.db").exists()
    made = run(main, ["every", "month on the 1st at 9am", "pay", "--on-holiday", "next_working_day", "--json", *config])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["policy"] == {"calendar": "berlin", "on_holiday": "next_working_day"}
    made = run(main, ["every", "working day at 9am", "stand-up", "--json", *config])
    assert json.loads(made.stdout)["policy"] == {"calendar": "berlin", "on_holiday": "skip"}, made.output
    sound = run(main, ["doctor", *config])
    assert "calendars" not in sound.stdout


def test_doctor_says_which_calendar_cannot_be_read(tmp_path: Path) -> None:
    more = '[calendars.office]\nics = "gone.ics"\n[calendars.nowhere]\ncountry = "XX"\n'
    config = configured(tmp_path, more)
    run = CliRunner().invoke
    assert run(main, ["at", "in 1 hour", "x", *config]).exit_code == 0
    told = run(main, ["doctor", *config])
    assert told.exit_code == 1
    assert "calendars.office" in told.stdout
    assert "gone.ics: No such file or directory" in told.stdout
    assert "calendars.nowhere" in told.stdout


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("[calendars.de]\n", "calendars.de", "either a country or an ics file"),
        ('[calendars.de]\ncountry = "DE"\nics = "x.ics"\n', "calendars.de", "either a country or an ics file"),
        ('[calendars.de]\nics = "x.ics"\nsubdivision = "BE"\n', "calendars.de.subdivision", "only a country"),
        ('[calendars.de]\nland = "DE"\n', "calendars", "land"),
        ('calendar = "fr"\n[calendars.de]\ncountry = "DE"\n', "calendar", "There are: de."),
        ('working_days = "weekdays"\n', "working_days", "mon-fri"),
    ],
)
def test_settings_that_cannot_be_stop_the_start(tmp_path: Path, text: str, field: str, said: str) -> None:
    file = tmp_path / "wakeful.toml"
    file.write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        load(file)
    assert refused.value.field == field
    assert said in str(refused.value) + refused.value.fix
