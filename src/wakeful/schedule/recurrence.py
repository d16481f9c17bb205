"""Recurrence rules (RFC 5545) as values: what they are made of, the text that stands for them, how it is read."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, NoReturn
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule
from wakeful.schedule.zones import by_zone_rules, instant, zone

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
DAY_CODES = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")  # the number of a weekday is its place here
MONDAY = 1
MOST_COUNTED = 5_000
LONGEST_INTERVAL = 99_999

RuleMoment = datetime | date  # UTC, a wall clock reading (no zone), or a whole day


class CountedDay(NamedTuple):
    """A weekday; `n` counts it within the month or year, from the end if negative; 0 means each one."""

    weekday: int
    n: int = 0


class RecurrenceRule(NamedTuple):
    """One RRULE. What it leaves out comes from where it counts from: its time of day, weekday, day or month."""

    freq: str
    interval: int = 1
    fire_count: int | None = None
    until: RuleMoment | None = None
    by_month: tuple[int, ...] = ()
    by_week_no: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[CountedDay, ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_set_pos: tuple[int, ...] = ()
    week_start: int = MONDAY

    def text(self) -> str:
        """As it is written behind "RRULE:", every part in one order and with sorted values."""
        parts = [f"FREQ={self.freq}"]
        parts += [f"INTERVAL={self.interval}"] if self.interval != 1 else []
        parts += [f"COUNT={self.fire_count}"] if self.fire_count is not None else []
        parts += [f"UNTIL={written(self.until)}"] if self.until is not None else []
        for name, field in LISTS.items():
            if values := getattr(self, field):
                parts.append(f"{name}={','.join(map(str, sorted(set(values))))}")
            if name == "BYMONTHDAY" and self.by_day:
                parts.append(f"BYDAY={','.join(_day(day) for day in sorted(set(self.by_day), key=_from_monday))}")
        parts += [f"WKST={DAY_CODES[self.week_start]}"] if self.week_start != MONDAY else []
        return ";".join(parts)

    @property
    def says_time(self) -> bool:
        """Whether it names a time of day, or a part of one."""
        return bool(self.by_hour or self.by_minute or self.by_second)


class Recurrence(NamedTuple):
    """A whole schedule: the rules, from where they count, and single dates more or less."""

    rules: tuple[RecurrenceRule, ...] = ()
    start: RuleMoment | None = None  # None: counts from the alarm's own start
    dates: tuple[RuleMoment, ...] = ()
    exceptions: tuple[RuleMoment, ...] = ()

    def text(self) -> str:
        """The one line that stands for it, accepted wherever a cron expression is."""
        parts = [] if self.start is None else [f"DTSTART:{written(self.start)}"]
        parts += [f"RRULE:{rule.text()}" for rule in self.rules]
        for name, dates in (("RDATE", self.dates), ("EXDATE", self.exceptions)):
            if dates:
                parts.append(f"{name}:{','.join(sorted({written(moment) for moment in dates}))}")
        return " ".join(parts)


LISTS = {
    "BYMONTH": "by_month",
    "BYWEEKNO": "by_week_no",
    "BYYEARDAY": "by_year_day",
    "BYMONTHDAY": "by_month_day",
    "BYHOUR": "by_hour",
    "BYMINUTE": "by_minute",
    "BYSECOND": "by_second",
    "BYSETPOS": "by_set_pos",
}


def written(moment: RuleMoment) -> str:
    """20270105, 20270105T090000, or 20270105T080000Z."""
    if not isinstance(moment, datetime):
        return moment.strftime("%Y%m%d").zfill(8)
    if moment.tzinfo is not None:
        return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ").zfill(16)
    return moment.strftime("%Y%m%dT%H%M%S").zfill(15)


def _day(day: CountedDay) -> str:
    return f"{day.n or ''}{DAY_CODES[day.weekday]}"


def _from_monday(day: CountedDay) -> tuple[int, int]:
    return day.n, (day.weekday - MONDAY) % 7


_MONTHS = range(1, 13)
_FEBRUARY = 2
_LENGTHS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
YearDay = tuple[int, int]  # month and day


def that_matter(dates: frozenset[YearDay], months: frozenset[int], days: tuple[int, ...]) -> frozenset[YearDay]:
    """Without the dates on which nothing fires anyway. `days`: of the month, from its end if negative; none: all."""
    return frozenset(one for one in dates if one[0] in months and (not days or one[1] in _days_of(one[0], days)))


def is_all_left_out(month: int, dates: frozenset[YearDay], days: tuple[int, ...]) -> bool:
    """Whether none of these days is left of a month."""
    return bool(days) and all((month, day) in dates for day in _days_of(month, days))


def _days_of(month: int, days: tuple[int, ...]) -> set[int]:
    lengths = {_LENGTHS[month], 28} if month == _FEBRUARY else {_LENGTHS[month]}
    return {day if day > 0 else length + 1 + day for day in days for length in lengths}


def without_dates(rule: RecurrenceRule, dates: frozenset[YearDay]) -> tuple[RecurrenceRule, ...]:
    """The rules that fire as this one does, but not on these dates of a year."""
    months = rule.by_month or tuple(_MONTHS)
    off: dict[int, set[int]] = defaultdict(set)
    for month, day in dates:
        if month in months:
            off[month].add(day)
    if rule.freq == "WEEKLY" and off:  # which knows no days of the month
        rule = rule._replace(freq="DAILY")
    whole = tuple(month for month in months if month not in off)
    rules = [rule._replace(by_month=() if len(whole) == len(_MONTHS) else whole)] if whole else []
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for month in sorted(off):
        alike[_left(rule, month, off[month])].append(month)
    rules += [rule._replace(by_month=tuple(some), by_month_day=days) for days, some in sorted(alike.items()) if days]
    return tuple(rules)


def _left(rule: RecurrenceRule, month: int, off: set[int]) -> tuple[int, ...]:
    """The days of a month that stay; from the end of the month as the rule says them."""
    length = _LENGTHS[month]
    days = rule.by_month_day or tuple(range(1, length + 1))
    return tuple(day for day in days if (day if day > 0 else length + 1 + day) not in off)


def dates_left_out(rules: tuple[RecurrenceRule, ...]) -> tuple[RecurrenceRule, frozenset[YearDay]] | None:
    """The one rule and the dates that without_dates() made these of; None where they are something else."""
    months = sorted(month for rule in rules for month in rule.by_month)
    if not months or len(set(months)) != len(months):
        return None
    whole = rules[0] if rules[0].by_month_day == () or len(rules) == 1 else None
    base = whole or rules[0]._replace(by_month_day=())
    base = base._replace(by_month=() if len(months) == len(_MONTHS) else tuple(months))
    if base.freq == "DAILY" and base.by_day:
        base = base._replace(freq="WEEKLY")  # what those are on certain weekdays
    dates = frozenset(
        (month, day)
        for rule in rules
        if rule.by_month_day
        for month in rule.by_month
        for day in range(1, _LENGTHS[month] + 1)
        if day not in rule.by_month_day
    )
    return (base, dates) if dates and without_dates(base, dates) == rules else None


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


def _start(parameters: dict[str, str], value: str, timezone: str) -> tuple[RuleMoment, str]:
    name = parameters.get("TZID", timezone)
    start = _moment(value, "DTSTART", "", zone(name))
    if isinstance(start, datetime) and start.tzinfo is not None:
        if "TZID" in parameters:
            _refuse("DTSTART", "has a zone and a Z.", "Leave one of them out.")
        return start.replace(tzinfo=None), "UTC"
    return start, name


def _rule(text: str) -> RecurrenceRule:
    fields: dict[str, str] = {}
    for item in text.upper().strip(";").split(";"):
        name, equals, value = item.partition("=")
        if name not in _PARTS or not equals:
            _refuse(name[:40], "is not a part of RRULE.", f"Accepted: {', '.join(_PARTS)}.")
        if name in fields:
            _refuse(name, "is given twice.", "Write its values as one list, with commas.")
        fields[name] = value
    values: dict[str, Any] = {
        "freq": _freq(fields.get("FREQ", "")),
        "interval": _number("INTERVAL", fields.get("INTERVAL", "1")),
        "fire_count": _number("COUNT", fields["COUNT"]) if "COUNT" in fields else None,
        "until": _moment(fields["UNTIL"], "UNTIL", "", None) if "UNTIL" in fields else None,
        "by_day": _days(fields["BYDAY"]) if "BYDAY" in fields else (),
        "week_start": _week_start(fields["WKST"]) if "WKST" in fields else MONDAY,
    }
    values |= {
        field: tuple(sorted({_number(name, number) for number in fields[name].split(",")}))
        for name, field in LISTS.items()
        if name in fields
    }
    rule = RecurrenceRule(**values)
    _check(rule, fields)
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


def _check(rule: RecurrenceRule, fields: dict[str, str]) -> None:
    for name, (frequencies, instead) in _NOT_WITH.items():
        if name in fields and rule.freq in frequencies:
            _refuse(name, f"has no meaning with FREQ={rule.freq}.", instead)
    counted = any(day.n for day in rule.by_day)
    if counted and (rule.freq not in ("YEARLY", "MONTHLY") or rule.by_week_no):
        _refuse("BYDAY", "counts weekdays, as in 2MO.", "That goes with FREQ=MONTHLY, or FREQ=YEARLY without BYWEEKNO.")
    if rule.by_set_pos and len([name for name in fields if name.startswith("BY")]) < 2:
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


def _moment(text: str, name: str, tzid: str, tz: ZoneInfo | None) -> RuleMoment:
    """A day, a reading of the schedule's own clock, or a moment in UTC; one of another zone's clock becomes that."""
    found = _MOMENT.fullmatch(text.upper())
    try:
        if found is None:
            raise ValueError
        numbers = [int(number) for number in found.groups()[:6] if number is not None]
        if not 2 <= numbers[0] <= 9998:  # beyond its ends the calendar has no moments
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
