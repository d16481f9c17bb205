"""A phrase with bounds and exclusions through every door: it is previewed, set and described with them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

import wakeful
from tests.interfaces.world import serving
from wakeful.cli import main

PHRASE = "every other friday at 9am from 2090-12-01 until 2091-03-01 for 10 times"
STARTS_AT = datetime(2090, 12, 1, tzinfo=UTC)
ENDS_AT = datetime(2091, 3, 1, 23, 59, 59, tzinfo=UTC)
WORDS = "every 2 weeks on Friday at 09:00 starting 1 December 2090 until 1 March 2091 for 10 times, UTC"


async def test_http_previews_the_bounds_and_sets_them(tmp_path: Path) -> None:
    async with serving(db=str(tmp_path / "w.db")) as visit:
        shown = (await visit("POST", "/v1/preview", {"when": PHRASE, "timezone": "UTC", "n": 99})).json
        assert (shown["starts_at"], shown["max_fires"]) == ("2090-12-01T00:00:00Z", 10)
        assert (shown["ends_at"], shown["description"]) == ("2091-03-01T23:59:59Z", WORDS)
        assert len(shown["next"]) == 7
        alarm = await visit.set(when=PHRASE, timezone="UTC")
        assert alarm["policy"]["max_fires"] == 10
        plain = (await visit("POST", "/v1/preview", {"when": "every day at 9am", "timezone": "UTC"})).json
        assert not {"starts_at", "ends_at", "max_fires"} & set(plain)


async def test_python_hears_the_bounds(tmp_path: Path) -> None:
    async with wakeful.open(str(tmp_path / "w.db"), timezone="UTC") as alarms:
        understood = await alarms.parse(PHRASE)
        assert (understood.starts_at, understood.ends_at, understood.max_fires) == (STARTS_AT, ENDS_AT, 10)
        alarm = await alarms.set(PHRASE, "x")
        assert (alarm.policy.starts_at, alarm.policy.ends_at, alarm.policy.max_fires) == (STARTS_AT, ENDS_AT, 10)
        assert alarm.next_fire_at == understood.next(1)[0] == datetime(2090, 12, 1, 9, tzinfo=UTC)


def test_the_command_line_reads_bounds_without_quotes_and_says_them(tmp_path: Path) -> None:
    run = CliRunner()
    base = ["--db", str(tmp_path / "w.db")]
    shown = run.invoke(main, [*base, "--json", "preview", PHRASE, "--tz", "UTC", "-n", "2"])
    told = json.loads(shown.stdout)
    assert (told["description"], told["max_fires"]) == (WORDS, 10)
    added = run.invoke(main, [*base, "every", *PHRASE.removeprefix("every ").split(), "Look", "--tz", "UTC"])
    assert added.exit_code == 0, added.output
    assert WORDS in added.stdout
    twice = run.invoke(main, [*base, "every", "day at 9am, 10 times", "Look", "--max-fires", "3", "--tz", "UTC"])
    assert twice.exit_code != 0
    assert "10" in twice.stderr
    assert "--max-fires" in twice.stderr
