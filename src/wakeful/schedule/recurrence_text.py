"""Read the text of a recurrence rule. What is refused is named by its part, with what that part accepts."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, NoReturn
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule
from wakeful.schedule.recurrence import (
    DAY_CODES,
    FREQUENCIES,
    LISTS,
    LONGEST_INTERVAL,
    MONDAY,
    MOST_COUNTED,
    CountedDay,
    Recurrence,
    RecurrenceRule,
    Said,
)
from wakeful.schedule.zones import by_zone_rules, instant, zone

LONGEST_RULE = 2000
_MOST_RULES = 10
_PROPERTY = re.compile(r"([A-Za-z]+)((?:;[A-Za-z]+=[^:;\s]+)*):(\S+)")
_MOMENT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z?))?")
_COUNTED_DAY = re.compile(r"([+-]?[0-9]{1,2})?(SU|MO|TU|WE|TH|FR|SA)")
_WHOLE = re.compile(r"[+-]?[0-9]{1,6}")
_EXAMPLE = "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9;BYMINUTE=0"
_PROPERTIES = "DTSTART, RRULE, RDATE and EXDATE, with spaces between them"


class Range(NamedTuple):
    """The numbers one part accepts; from the end too where they may be negative."""

    low: int
    high: int
    negative: bool = False

    def __contains__(self, number: object) -> bool:
        assert isinstance(number, int)
        return self.low <= (abs(number) if self.negative else number) <= self.high

    def words(self) -> str:
        return f"{self.low} to {self.high}" + (
            f", or -{self.low} to -{self.high} from the end" if self.negative else ""
        )


_RANGES = {
    "BYMONTH": Range(1, 12),
    "BYWEEKNO": Range(1, 53, True),
    "BYYEARDAY": Range(1, 366, True),
    "BYMONTHDAY": Range(1, 31, True),
    "BYHOUR": Range(0, 23),
    "BYMINUTE": Range(0, 59),
    "BYSECOND": Range(0, 59),
    "BYSETPOS": Range(1, 366, True),
    "INTERVAL": Range(1, LONGEST_INTERVAL),
    "COUNT": Range(1, MOST_COUNTED),
}
_PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", *LISTS, "BYDAY", "WKST")
# What RFC 5545 leaves without a meaning, and what says it instead.
_NOT_WITH = {
    "BYWEEKNO": (FREQUENCIES[1:], "It goes with FREQ=YEARLY."),
    "BYYEARDAY": (("MONTHLY", "WEEKLY", "DAILY"), "It goes with FREQ=YEARLY, HOURLY or MINUTELY."),
    "BYMONTHDAY": (("WEEKLY",), "Write FREQ=MONTHLY, or FREQ=DAILY with both."),
}


def read(text: str, timezone: str) -> tuple[Recurrence, str]:
    """The recurrence and the zone it is meant in: the one its DTSTART names, else the one given."""
    if len(text) > LONGEST_RULE:
        raise InvalidSchedule(f"is longer than {LONGEST_RULE} characters.", field="cron_expr")
    return _read(" ".join(text.split()), timezone)


@by_zone_rules(maxsize=1024)
def _read(text: str, timezone: str) -> tuple[Recurrence, str]:
    if text[:5].upper() == "FREQ=":
        text = f"RRULE:{text}"
    found = [_property(part) for part in text.split()]
    starts = [(parameters, value) for name, parameters, value in found if name == "DTSTART"]
    if len(starts) > 1:
        _refuse("DTSTART", "is given more than once.", "Give one; further dates are RDATE.")
    start, timezone = _start(*starts[0], timezone) if starts else (None, timezone)
    tz = zone(timezone)
    rules = tuple(_rule(value) for name, _, value in found if name == "RRULE")
    if start is None:
        rules = tuple(_whole_hours(rule) for rule in rules)
    dates = {
        wanted: tuple(
            _moment(text, wanted, parameters.get("TZID", ""), tz)
            for name, parameters, value in found
            if name == wanted
            for text in value.split(",")
        )
        for wanted in ("RDATE", "EXDATE")
    }
    recurrence = Recurrence(rules, start, dates["RDATE"], dates["EXDATE"])
    _check_whole(recurrence)
    return recurrence, timezone


def _whole_hours(rule: RecurrenceRule) -> RecurrenceRule:
    """Without a DTSTART, "BYHOUR=9" means 09:00, not the minute at which it happens to be set."""
    return rule._replace(by_minute=(0,)) if rule.by_hour and not rule.by_minute and rule.freq != "MINUTELY" else rule


def _check_whole(recurrence: Recurrence) -> None:
    rules, start = recurrence.rules, recurrence.start
    if not rules and not recurrence.dates:
        _refuse("RRULE", "is missing: it is not said when it fires.", f"For example {_EXAMPLE}.")
    if len(rules) > _MOST_RULES:
        _refuse("RRULE", f"is given {len(rules)} times.", f"At most {_MOST_RULES} rules are accepted.")
    if start is not None:
        return
    if len(rules) > 1 and not all(rule.by_hour for rule in rules):
        _refuse("DTSTART", "is missing: several rules need it for their time of day.", "Or give each one BYHOUR.")
    if any(not isinstance(moment, datetime) for moment in recurrence.dates):
        _refuse("RDATE", "names a day without a time.", "Write 20271224T090000, or give DTSTART.")


def _property(part: str) -> tuple[str, dict[str, str], str]:
    found = _PROPERTY.fullmatch(part)
    name = found[1].upper() if found else ""
    if name == "EXRULE":
        _refuse(name, "is not accepted.", "Name the dates it does not fire on in EXDATE.")
    if found is None or name not in ("DTSTART", "RRULE", "RDATE", "EXDATE"):
        _refuse(part[:40], "is not a part of a recurrence rule.", f"Accepted: {_PROPERTIES}. For example {_EXAMPLE}.")
    parameters = dict(item.split("=", 1) for item in found[2].split(";")[1:])
    parameters = {key.upper(): value for key, value in parameters.items()}
    for key, value in parameters.items():
        kinds = ("TZID",) if name == "RRULE" else ("TZID", "VALUE")
        if name == "RRULE" or key not in kinds or (key == "VALUE" and value.upper() not in ("DATE", "DATE-TIME")):
            _refuse(name, f"{key}={value[:40]} is not accepted.", "Accepted: ;TZID=Europe/Berlin, ;VALUE=DATE.")
    return name, parameters, found[3]


def _start(parameters: dict[str, str], value: str, timezone: str) -> tuple[Said, str]:
    name = parameters.get("TZID", timezone)
    start = _moment(value, "DTSTART", "", zone(name))
    if isinstance(start, datetime) and start.tzinfo is not None:
        if "TZID" in parameters:
            _refuse("DTSTART", "has a zone and a Z.", "Leave one of them out.")
        return start.replace(tzinfo=None), "UTC"
    return start, name


def _rule(text: str) -> RecurrenceRule:
    said: dict[str, str] = {}
    for item in text.upper().strip(";").split(";"):
        name, equals, value = item.partition("=")
        if name not in _PARTS or not equals:
            _refuse(name[:40], "is not a part of RRULE.", f"Accepted: {', '.join(_PARTS)}.")
        if name in said:
            _refuse(name, "is given twice.", "Write its values as one list, with commas.")
        said[name] = value
    values: dict[str, Any] = {
        "freq": _freq(said.get("FREQ", "")),
        "interval": _number("INTERVAL", said.get("INTERVAL", "1")),
        "fire_count": _number("COUNT", said["COUNT"]) if "COUNT" in said else None,
        "until": _moment(said["UNTIL"], "UNTIL", "", None) if "UNTIL" in said else None,
        "by_day": _days(said["BYDAY"]) if "BYDAY" in said else (),
        "week_start": _week_start(said["WKST"]) if "WKST" in said else MONDAY,
    }
    values |= {
        field: tuple(sorted({_number(name, number) for number in said[name].split(",")}))
        for name, field in LISTS.items()
        if name in said
    }
    rule = RecurrenceRule(**values)
    _check(rule, said)
    return rule


def _freq(text: str) -> str:
    if text not in FREQUENCIES:
        instead = " For seconds, write @every 10s." if text == "SECONDLY" else ""
        _refuse(
            "FREQ",
            f"{text[:40]!r} is not accepted." if text else "is missing.",
            f"Accepted: {', '.join(FREQUENCIES)}.{instead}",
        )
    return text


def _check(rule: RecurrenceRule, said: dict[str, str]) -> None:
    for name, (frequencies, instead) in _NOT_WITH.items():
        if name in said and rule.freq in frequencies:
            _refuse(name, f"has no meaning with FREQ={rule.freq}.", instead)
    counted = any(day.n for day in rule.by_day)
    if counted and (rule.freq not in ("YEARLY", "MONTHLY") or rule.by_week_no):
        _refuse("BYDAY", "counts weekdays, as in 2MO.", "That goes with FREQ=MONTHLY, or FREQ=YEARLY without BYWEEKNO.")
    if rule.by_set_pos and len([name for name in said if name.startswith("BY")]) < 2:
        _refuse("BYSETPOS", "picks from what other BY parts name.", "Add one, for example BYDAY=MO,TU,WE,TH,FR.")
    if rule.fire_count is not None and rule.until is not None:
        _refuse("COUNT", "and UNTIL cannot both be given.", "Leave one of them out.")


def _number(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text) or int(text) not in _RANGES[name]:
        more = " Or set UNTIL, or the alarm's max_fires." if name == "COUNT" else ""
        _refuse(name, f"{text[:40]!r} is not accepted.", f"Accepted: {_RANGES[name].words()}.{more}")
    return int(text)


def _days(text: str) -> tuple[CountedDay, ...]:
    days = set()
    for item in text.split(","):
        found = _COUNTED_DAY.fullmatch(item)
        n = int(found[1] or 0) if found else 0
        if found is None or abs(n) > 53 or (found[1] and n == 0):
            _refuse(
                "BYDAY",
                f"{item[:40]!r} is not understood.",
                "Accepted: MO, TU, WE, TH, FR, SA, SU, counted as in 2MO or -1FR.",
            )
        days.add(CountedDay(DAY_CODES.index(found[2]), n))
    return tuple(sorted(days))


def _week_start(text: str) -> int:
    if text not in DAY_CODES:
        _refuse("WKST", f"{text[:40]!r} is not a weekday.", "Accepted: MO, TU, WE, TH, FR, SA, SU.")
    return DAY_CODES.index(text)


def _moment(text: str, name: str, tzid: str, tz: ZoneInfo | None) -> Said:
    """A day, a reading of the schedule's own clock, or a moment in UTC; one of another zone's clock becomes that."""
    found = _MOMENT.fullmatch(text.upper())
    try:
        if found is None:
            raise ValueError
        numbers = [int(number) for number in found.groups()[:6] if number is not None]
        if not 2 <= numbers[0] <= 9998:  # beyond its ends the calendar cannot be asked
            raise ValueError
        if len(numbers) == 3:
            return date(*numbers)
        moment = datetime(*numbers)  # type: ignore[arg-type]  # noqa: DTZ001 a reading has no zone
    except ValueError:
        _refuse(name, f"{text[:40]!r} is not a date.", "Write 20270105T090000, 20270105T080000Z or 20270105.")
    if found[7]:
        return moment.replace(tzinfo=UTC)
    other = zone(tzid) if tzid else tz
    return moment if other is tz or other is None else instant(moment, other)


def _refuse(part: str, why: str, fix: str) -> NoReturn:
    raise InvalidSchedule(f"{part}: {why}" if why[:1] in "'\"" else f"{part} {why}", field="cron_expr", fix=fix)
