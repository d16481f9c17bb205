"""Every suggestion in a refusal is a promise: it is understood, ahead, of the kind that was said, and as often."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import Understood, parse, schedule

from .helpers import BERLIN, NOW, say
from .scoring import SOME_DAY, VECTORS, Row, rows

SUGGESTED = re.compile(r'"([^"]+)" \(((?:next )?[A-Z][a-z]{2} [^()]+)\)')
RECURRING = ("recurring",)
FIRES = 60


def refusal(phrase: str, timezone: str, now: datetime) -> InvalidSchedule | None:
    try:
        parse(phrase, timezone=timezone, now=now)
    except InvalidSchedule as error:
        return error
    return None


def all_phrases() -> list[Row]:
    files = ("phrases_dev.jsonl", "more_phrases_dev.jsonl")
    return [row for name in files for row in rows(name)]


@pytest.fixture(scope="module")
def refused() -> list[tuple[Row, InvalidSchedule]]:
    """Every row of every source that is refused, with its refusal."""
    found = []
    for row in all_phrases():
        error = refusal(row["phrase"], row["tz"], datetime.fromisoformat(row["now"]))
        if error is not None:
            found.append((row, error))
    return found


def understood(row: Row, phrase: str) -> Understood:
    return parse(phrase, timezone=row["tz"], now=datetime.fromisoformat(row["now"]))


def test_every_suggestion_is_understood_and_ahead_at_the_moment_it_names(
    refused: list[tuple[Row, InvalidSchedule]],
) -> None:
    seen = 0
    for row, error in refused:
        for phrase, means in SUGGESTED.findall(error.fix):
            [at] = understood(row, phrase).next(1)
            assert at > datetime.fromisoformat(row["now"])
            local = at.astimezone(ZoneInfo(row["tz"]))
            assert means.removeprefix("next ").startswith(f"{local:%a} {local.day} {local:%b} "), (row, phrase)
            assert means.endswith(f"{local:%H:%M}")
            seen += 1
    assert seen > 1000


def test_each_refusal_of_one_moment_has_suggestions_for_one_moment(
    refused: list[tuple[Row, InvalidSchedule]],
) -> None:
    for row, error in refused:
        found = SUGGESTED.findall(error.fix)
        if row["category"] in RECURRING or not found:
            continue
        kinds = [understood(row, phrase).kind for phrase, _ in found]
        # A length of time alone is asked back as once or again; what sounds as if it recurs is answered as that.
        assert kinds in (["once"], ["once", "once"], ["once", "cron"], ["cron"], ["cron", "cron"]), (row, error.fix)
        assert kinds != ["once", "cron"] or "again and again" in error.message


def test_what_recurs_is_never_answered_with_one_moment(refused: list[tuple[Row, InvalidSchedule]]) -> None:
    for row, error in refused:
        if row["category"] in RECURRING:
            kinds = {understood(row, phrase).kind for phrase, _ in SUGGESTED.findall(error.fix)}
            assert kinds <= {"cron"}, (row, error.fix)


def test_a_rhythm_that_is_suggested_has_the_period_that_was_meant(
    refused: list[tuple[Row, InvalidSchedule]],
) -> None:
    checked = 0
    for row, error in refused:
        if not row.get("rrule"):
            continue
        phrases = [phrase for phrase, _ in SUGGESTED.findall(error.fix)]
        if not phrases:
            continue
        meant, period = _period_meant(row)
        counts = [_fires_between(understood(row, phrase), meant[0] - period, meant[-1]) for phrase in phrases]
        fit = [abs(count - len(meant)) <= 0.1 * len(meant) + 1 for count in counts]
        # Of two meanings both are suggested.
        assert any(fit) if " can be " in error.message else all(fit), (row, phrases)
        checked += len(phrases)
    assert checked


def _period_meant(row: Row) -> tuple[list[datetime], timedelta]:
    """The fires of the rule that its source reads in it, without an end, and the time between them."""
    now = datetime.fromisoformat(row["now"])
    parts = [part for part in row["rrule"].split(";") if not part.startswith(("COUNT", "UNTIL"))]
    rule = schedule(f"RRULE:{';'.join(parts)}", row["tz"], anchor=now)
    fires: list[datetime] = []
    moment = now
    while len(fires) < FIRES:
        fire = rule.after(moment)
        assert fire is not None
        fires.append(fire)
        moment = fire
    return fires, (fires[-1] - fires[0]) / (FIRES - 1)


def _fires_between(found: Understood, begin: datetime, end: datetime) -> int:
    rule = schedule(found.cron_expr, found.timezone, anchor=found.now)
    count, moment = 0, rule.after(begin)
    while moment is not None and moment <= end:
        count, moment = count + 1, rule.after(moment)
    return count


def test_a_refused_cron_expression_is_never_answered_with_one_moment() -> None:
    for row in rows("cron_dev.jsonl"):
        timezone = row.get("tz", "UTC")
        now = datetime.fromisoformat(row.get("start", SOME_DAY)).astimezone(ZoneInfo(timezone))
        error = refusal(row["expr"], timezone, now)
        for phrase in SUGGESTED.findall(error.fix) if error is not None else ():
            assert parse(phrase[0], timezone=timezone, now=now).kind == "cron", row


def test_every_row_has_its_source_and_licence() -> None:
    lines = (VECTORS / "more_phrases_dev.jsonl").read_text(encoding="utf-8").splitlines()
    assert all(row["source"] and row["licence"] for row in map(json.loads, lines))


@pytest.mark.parametrize(
    ("said", "first", "second"),
    [
        ("next week", "monday next week at 9am", "in 1 week"),
        ("next month", "1st of next month at 9am", "in 1 month"),
        ("end of day", "today at 5pm", "today at 23:59"),
        ("EOD", "today at 5pm", "today at 23:59"),
        ("end of the month", "last day of this month at 5pm", "last day of this month at 23:59"),
        ("end of friday", "friday at 5pm", "friday at 23:59"),
        ("beginning of next month", "1st of next month at 9am", "1st of next month at 00:00"),
        ("this weekend", "saturday at 10am", "sunday at 10am"),
        ("christmas", "25 december", "25 december at noon"),
        ("july 2027", "1 july 2027 at 9am", "last day of july 2027 at 9am"),
        ("february 30 at noon", "last day of february at noon", "1 march at noon"),
        ("friday at midnight", "friday at 00:00", "friday at 23:59"),
        ("friday 21 november 2026 at 4pm", "saturday 21 november 2026 at 4pm", "friday at 4pm"),
        ("friday night at 1am", "20 november 2026 at 01:00", "21 november 2026 at 01:00"),
        ("soon", "in 10 minutes", "in 1 hour"),
        ("in a few hours", "in 3 hours", "in 5 hours"),
        ("the next 3 days", "in 3 days", ""),
        ("10am to 12pm", "10am", "12pm"),
        ("monday 10am to 12pm", "monday 10am", "monday 12pm"),
        ("between 3 and 4", "at 3", "at 4"),
        ("2027-01-01/2027-01-05", "2027-01-01", "2027-01-05"),
        ("5", "at 5am", "at 5pm"),
        ("friday 13-15", "friday at 13", "friday at 15"),
        ("friday 13 to 15", "friday at 13", "friday at 15"),
        ("monday next week 21", "monday next week at 21:00", ""),
        ("14pm", "14:00", ""),
        ("remind me to call mum tomorrow at 5", "tomorrow at 5", ""),
        ("tomorow at 10am", "tomorrow at 10am", ""),
        ("half an hour before tomorrow", "half an hour before tomorrow at 9am", "half an hour before tomorrow at noon"),
        ("july 4 at 9am EST", "july 4 at 9am America/New_York", ""),
    ],
)
def test_what_is_suggested_comes_from_what_was_said(said: str, first: str, second: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say(said)
    assert refused.value.fix.startswith("Try ")
    assert [phrase for phrase, _ in SUGGESTED.findall(refused.value.fix)] == list(filter(None, [first, second]))


def test_a_suggestion_says_when_it_would_be() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("next week")
    assert refused.value.fix == 'Try "monday next week at 9am" (Mon 16 Nov 09:00) or "in 1 week" (Sun 22 Nov 09:00).'


def test_a_misspelled_rhythm_is_answered_with_that_rhythm() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("every wednsday at 9am")
    assert refused.value.meant == ("every wednesday at 9am",)
    assert refused.value.fix == 'Try "every wednesday at 9am" (next Wed 18 Nov 09:00).'


def test_a_rhythm_whose_first_word_is_misspelled_is_not_answered_with_one_moment() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("evry monday at 9am")
    assert refused.value.fix == 'Try "every monday at 9am" (next Mon 16 Nov 09:00).'


@pytest.mark.parametrize("said", ["call me before friday, not on monday", "9 to 5 except tomorrow"])
def test_words_that_say_when_are_not_left_out(said: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse(said, timezone=BERLIN, now=NOW)
    assert refused.value.fix.startswith("A time is written like ")
