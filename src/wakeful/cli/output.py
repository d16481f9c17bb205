"""Answers for people and for programs: an aligned table on a terminal, TSV in a pipe, JSON when asked.

Alarms hold words of strangers: a control character in them never reaches a terminal, nor breaks a line of TSV.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click
from msgspec import UNSET, Struct, UnsetType
from msgspec.json import encode

from wakeful.cli import times
from wakeful.cli.colours import PAINTED, heading, is_coloured_here, painted
from wakeful.cli.times import reader_zone
from wakeful.clock import SystemClock
from wakeful.errors import InvalidRequest, WakefulError
from wakeful.model.alarm import Alarm
from wakeful.rules.create import series_words
from wakeful.rules.wanted import moment
from wakeful.schedule import duration, zone
from wakeful.schedule.descriptions import moment as in_words
from wakeful.service import views

_GAP: Final = "  "
HEADING: Final = ""  # the column a heading belongs to
SHORT: Final = 13  # signs of an id: the millisecond it was made at
_WIDEST: Final = 52  # a fire's id is just as wide
_USUAL_WIDTH: Final = 80
_LAST: Final = 7  # of the last column, at least
_NARROWEST: Final = 7  # of any other
_WHOLE: Final = ("id", "fire", "next", "scheduled", "fires at", "status")  # cut, these would mean something else
# What a narrow terminal does without, the first first: `show`, --json and a pipe have it.
_SPARED: Final = ("missed", "late ms", "attempt", "tries", "created", "schedule", "label", "target")
_ESCAPES: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
_HIDDEN: Final = ("Cc", "Cf", "Zl", "Zp", "Cs")  # among them what turns the reading direction round


@dataclass(frozen=True)
class Output:
    json: bool = False
    terminal: bool = False
    width: int = _USUAL_WIDTH
    coloured: bool = False

    @classmethod
    def on_stdout(cls, *, json: bool, color: str = "auto") -> Output:
        terminal = sys.stdout.isatty()
        coloured = is_coloured_here(color, terminal=terminal) and not json
        return cls(json=json, terminal=terminal, width=_columns(), coloured=coloured)

    @property
    def is_table(self) -> bool:
        """Whether a person reads it."""
        return self.terminal and not self.json

    def at(self, moment: datetime | None, now: datetime | None = None) -> str:
        """A moment in a column: how far away, and in the reader's own zone, for people; in UTC, for programs."""
        if moment is None:
            return ""
        if not self.terminal:
            return utc(moment)
        return times.short(moment, now or SystemClock().now(), zone(reader_zone()))

    def when(self, moment: datetime | None, now: datetime | None = None) -> str:
        """A moment on a line of its own, for people with the day as well."""
        if moment is None:
            return ""
        if not self.terminal:
            return utc(moment)
        return times.full(moment, now or SystemClock().now(), zone(reader_zone()))

    def sentence(self, text: str, now: datetime | None = None) -> str:
        """A sentence of ours on one line. For people the moments in it are told by the reader's own clock."""
        if not self.terminal:
            return clean(text)
        told, here = now or SystemClock().now(), zone(reader_zone())
        return clean(times.retold(text, lambda moment: times.absolute(moment, told, here)))

    def id(self, id: str) -> str:
        return self.ids([id])[id]

    def ids(self, ids: Sequence[str]) -> dict[str, str]:
        """Each id as it is shown: whole for programs; for people as much of it as tells it from the others here."""
        if not self.terminal:
            return {id: id for id in ids}
        alarms = {id.partition("@")[0] for id in ids}  # of a fire's id, its alarm's part is shortened
        length = next((size for size in range(SHORT, 36) if len({id[:size] for id in alarms}) == len(alarms)), 36)
        return {id: id[:length] + "".join(id.partition("@")[1:]) for id in ids}

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[str]], document: Mapping[str, Any]) -> None:
        """A list. TSV has no heading, so that `cut` and `while read` need not skip one."""
        if self.json:
            click.echo(views.encode(document))
        elif self.terminal:
            self.echo(table(columns, [[clean(cell) for cell in row] for row in rows], self.width, self.paint))
        else:
            for row in rows:
                cells = (self.paint(name, clean(cell)) for name, cell in zip(columns, row, strict=True))
                self.echo("\t".join(cells))

    def empty(self, sentence: str) -> bool:
        """Say to a person that a list is empty, and what to do; a program gets its empty list."""
        if self.is_table:
            self.echo(sentence)
        return self.is_table

    def record(self, fields: Mapping[str, str], document: Mapping[str, Any]) -> None:
        """One thing: a name and a value per line; what is empty is left out."""
        if self.json:
            click.echo(views.encode(document))
            return
        given = {name: clean(value) for name, value in fields.items() if value}
        widest = max(map(len, given), default=0)
        for name, value in given.items():
            shown = self.paint(name, value)
            self.echo(f"{name:<{widest}}{_GAP}{shown}" if self.terminal else f"{name}\t{shown}")

    def echo(self, text: str) -> None:
        click.echo(text, color=self.coloured)

    def paint(self, column: str, text: str) -> str:
        if not self.coloured:
            return text
        if column == HEADING:
            return heading(text)
        return painted(text) if column in PAINTED else text


def _columns() -> int:
    """How wide the terminal is: as `shutil` says it, which takes longer to import than to ask."""
    if (said := os.environ.get("COLUMNS", "")).isdecimal() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError, AttributeError):  # not a terminal, or no file at all
        return _USUAL_WIDTH


def clean(text: str) -> str:
    """Text on one line, with every control character written out."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(_ESCAPES.get(sign) or _visible(sign) for sign in text)


def _visible(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if unicodedata.category(sign) in _HIDDEN else sign


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    paint: Callable[[str, str], str] = lambda _, text: text,
) -> str:
    """Aligned columns under a heading that fit the width. What is empty in every row is left out; ids and moments are
    never cut, other columns are where they must be, or left out where even that would not do."""
    kept = [at for at in range(len(columns)) if not rows or any(row[at] for row in rows)]
    kept = _fitting(columns, rows, kept, width)
    cut = [[_cut(row[at], _WIDEST) if at != kept[-1] else row[at] for at in kept] for row in rows]
    lines = [[columns[at].upper() for at in kept], *cut]
    sizes = [max(_width(line[index]) for line in lines) for index in range(len(kept) - 1)]
    _shrink(sizes, [columns[at] for at in kept], width - _LAST)
    room = max(_LAST, width - sum(sizes) - len(_GAP) * len(sizes))
    names = [columns[at] for at in kept]
    shown = [[_cut(cell, size) for cell, size in zip(line, [*sizes, room], strict=True)] for line in lines]
    return "\n".join(
        _line(line, sizes, [HEADING] * len(names) if at == 0 else names, paint) for at, line in enumerate(shown)
    )


def _fitting(columns: Sequence[str], rows: Sequence[Sequence[str]], kept: list[int], width: int) -> list[int]:
    """The columns that have room side by side, each as narrow as it may be."""
    sizes = [max(len(columns[at]), *(_width(row[at]) for row in rows), 0) for at in range(len(columns))]

    def least(at: int) -> int:
        return min(sizes[at], _LAST if at == kept[-1] else _WIDEST if columns[at] in _WHOLE else _NARROWEST)

    for name in _SPARED:
        if sum(map(least, kept)) + len(_GAP) * (len(kept) - 1) <= width:
            break
        kept = [at for at in kept if columns[at] != name]
    return kept


def _shrink(sizes: list[int], columns: Sequence[str], width: int) -> None:
    """Narrow the widest column that may be, a sign at a time, until they fit or none may be any more."""
    free = [at for at in range(len(sizes)) if columns[at] not in _WHOLE]
    while free and sum(sizes) + len(_GAP) * len(sizes) > width:
        widest = max(free, key=lambda at: sizes[at])
        if sizes[widest] <= _NARROWEST:
            return
        sizes[widest] -= 1


def _line(cells: Sequence[str], sizes: Sequence[int], names: Sequence[str], paint: Callable[[str, str], str]) -> str:
    """Painted after it was measured: a colour takes no room. The last ones that are empty leave nothing behind."""
    filled = max((at for at, cell in enumerate(cells) if cell), default=0) + 1
    padding = [" " * (size - _width(cell)) for cell, size in zip(cells, sizes, strict=False)]
    painted_cells = [paint(name, cell) for name, cell in zip(names, cells, strict=True)][:filled]
    return _GAP.join(cell + pad for cell, pad in zip(painted_cells, [*padding[: filled - 1], ""], strict=True))


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
        return series_words(alarm)
    except InvalidRequest:  # one that was taken over from elsewhere, and has ended
        return alarm.cron_expr


def next_fire(alarm: Alarm, out: Output, now: datetime | None = None) -> dict[str, str]:
    """When an alarm fires next: for people how far away that is too, for programs in both zones."""
    if out.terminal:
        return {"next": out.when(alarm.next_fire_at, now) if alarm.status == "active" else ""}
    return {"local": local(alarm.next_fire_at, alarm.timezone), "utc": utc(alarm.next_fire_at)}


def tell_notes(notes: Iterable[str]) -> None:
    """What an owner should know besides, on stderr: a pipe gets the answer alone."""
    for note in notes:
        click.echo(f"note: {clean(note)}", err=True)


def schedule_of(alarm: Alarm) -> str:
    return alarm.cron_expr if alarm.kind == "cron" else "once"


def since(text: str | None, field: str, now: datetime) -> datetime | None:
    """`2026-01-01T00:00:00Z`, or `24h`: that long ago."""
    if text is None:
        return None
    if text[:4].isdigit() and "-" in text:
        return moment(text, field)
    return now - duration(text)


# Errors with `--json`: one JSON document on a line of stderr, in the words that HTTP's problem has


class ErrorView(Struct, frozen=True, kw_only=True):
    """What was wrong, with a stable `code`, the `field` at fault, and what to do instead."""

    code: str
    message: str
    field: str | UnsetType = UNSET
    fix: str | UnsetType = UNSET
    exit_status: int


def error_line(error: WakefulError) -> bytes:
    problem = views.problem(error)
    return _error_document(
        ErrorView(
            code=problem.code,
            message=error.message,
            field=problem.field,
            fix=problem.fix,
            exit_status=views.DOORS[error.code][1],
        )
    )


def usage_error(error: click.ClickException, message: str, fix: str) -> bytes:
    """A command line that was not understood is a request that is not valid."""
    param = getattr(error, "param", None)
    field = getattr(error, "option_name", "") or (param.opts[0] if param is not None else "")
    return _error_document(
        ErrorView(
            code=InvalidRequest.code,
            message=message,
            field=field or UNSET,
            fix=fix or UNSET,
            exit_status=error.exit_code,
        )
    )


def _error_document(view: ErrorView) -> bytes:
    return encode({"error": view})


# A bar with rate and time left, on stderr, for whoever watches a terminal


T = TypeVar("T")
_WORTH_IT: Final = 10  # what is done before a bar can be read needs none


def tracked(rows: Sequence[T], label: str) -> Iterator[T]:
    """Each of them, with a bar beside where stderr is a terminal."""
    if len(rows) <= _WORTH_IT or not sys.stderr.isatty():
        yield from rows
        return
    # Imported here: most commands never need it, and it takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*shown, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=len(rows), rate="")
        for row in rows:
            yield row
            speed = progress.tasks[task].speed
            progress.update(task, advance=1, rate=f"{speed:.0f}/s" if speed else "")
