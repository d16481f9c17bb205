"""Answers for people and for programs: an aligned table on a terminal, TSV in a pipe, JSON when asked.

Alarms hold words of strangers: a control character in them never reaches a terminal, nor breaks a line of TSV.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from wakeful import views
from wakeful.alarm import Alarm
from wakeful.alarm.request import moment
from wakeful.errors import InvalidRequest
from wakeful.schedule import describe, duration, zone
from wakeful.schedule.descriptions import moment as in_words

_GAP: Final = "  "
_WIDEST: Final = 52  # a fire's id is just as wide
_ESCAPES: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
_HIDDEN: Final = ("Cc", "Cf", "Zl", "Zp", "Cs")  # among them what turns the reading direction round


@dataclass(frozen=True)
class Output:
    json: bool = False
    terminal: bool = False
    width: int = 80

    @classmethod
    def on_stdout(cls, *, json: bool) -> Output:
        return cls(json=json, terminal=sys.stdout.isatty(), width=shutil.get_terminal_size().columns)

    def at(self, moment: datetime | None, timezone: str = "UTC") -> str:
        """A moment: where the alarm lives, for people; in UTC, for programs."""
        if moment is None:
            return ""
        return local(moment, timezone) if self.terminal else utc(moment)

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[str]], document: Mapping[str, Any]) -> None:
        """A list. TSV has no heading, so that `cut` and `while read` need not skip one."""
        if self.json:
            click.echo(views.encode(document))
        elif self.terminal:
            click.echo(table(columns, [[clean(cell) for cell in row] for row in rows], self.width))
        else:
            for row in rows:
                click.echo("\t".join(clean(cell) for cell in row))

    def record(self, fields: Mapping[str, str], document: Mapping[str, Any]) -> None:
        """One thing: a name and a value per line; what is empty is left out."""
        if self.json:
            click.echo(views.encode(document))
            return
        given = {name: clean(value) for name, value in fields.items() if value}
        widest = max(map(len, given), default=0)
        for name, value in given.items():
            click.echo(f"{name:<{widest}}{_GAP}{value}" if self.terminal else f"{name}\t{value}")


def clean(text: str) -> str:
    """Text on one line, with every control character written out."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(_ESCAPES.get(sign) or _visible(sign) for sign in text)


def _visible(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if unicodedata.category(sign) in _HIDDEN else sign


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Aligned columns under a heading; the last one is cut where the terminal ends, the others where they get wide."""
    cut = [[*(_cut(cell, _WIDEST) for cell in row[:-1]), row[-1]] for row in rows]
    lines = [[column.upper() for column in columns], *cut]
    sizes = [max(_width(line[index]) for line in lines) for index in range(len(columns) - 1)]
    room = max(20, width - sum(sizes) - len(_GAP) * len(sizes))
    return "\n".join(_line(line, sizes, room) for line in lines)


def _line(cells: Sequence[str], sizes: Sequence[int], room: int) -> str:
    padded = [cell + " " * (size - _width(cell)) for cell, size in zip(cells, sizes, strict=False)]
    return _GAP.join([*padded, _cut(cells[-1], room)]).rstrip()


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(s) else 2 if unicodedata.east_asian_width(s) in "WF" else 1 for s in text)


def _cut(text: str, room: int) -> str:
    if _width(text) <= room:
        return text
    while _width(text) >= room:
        text = text[:-1]
    return text + "…"


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec=_precision(moment)).replace("+00:00", "Z")


def local(moment: datetime, timezone: str) -> str:
    return moment.astimezone(zone(timezone)).isoformat(timespec=_precision(moment))


def _precision(moment: datetime) -> str:
    return "milliseconds" if moment.microsecond else "seconds"


def words(alarm: Alarm) -> str:
    """When an alarm fires, in words."""
    if alarm.fire_at is not None:
        return in_words(alarm.fire_at, alarm.timezone)
    try:
        return describe(alarm.cron_expr, alarm.timezone)
    except InvalidRequest:  # one that was taken over from elsewhere, and has ended
        return alarm.cron_expr


def schedule_of(alarm: Alarm) -> str:
    return alarm.cron_expr or "once"


def since(text: str | None, field: str, now: datetime) -> datetime | None:
    """`2026-01-01T00:00:00Z`, or `24h`: that long ago."""
    if text is None:
        return None
    if text[:4].isdigit() and "-" in text:
        return moment(text, field)
    return now - duration(text)
